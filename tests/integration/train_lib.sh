# Shared by the tests of belay-train by hand and under mpirun: tests/lib.sh, a corpus, small jobs, and comparisons of metrics.csv.
. "$(dirname "$0")/../lib.sh"
export OMP_NUM_THREADS=1
unset BELAY_JOB_ID BELAY_ATTEMPT BELAY_FAULT BELAY_JOB_FILE BELAY_NOTIFY_SOCKET
cd "$SCRATCH" || exit 1
for licence in Apache-2.0 GPL-2 GPL-3 LGPL-2.1 MPL-1.1; do cat "/usr/share/common-licenses/$licence"; done >corpus.txt

# job_file NAME [arch]: writes NAME.yaml, a tiny job that saves to the folder NAME
job_file() {
  cat >"$1.yaml" <<END
name: $1
train:
  model: {arch: ${2:-gpt2}, layers: 2, hidden: 32, heads: 4, context: 32}
  data: {path: corpus.txt, tokenizer: bytes}
  steps: 24
  batch: {global: 16, micro: 4}
  optimizer: {lr: 1e-3, min_lr: 1e-4, warmup: 4, schedule: cosine, weight_decay: 0.1, betas: [0.9, 0.95], clip: 1.0}
  seed: 11
resources: {device: cpu, cpus: 1, memory: 64MiB}
checkpoint: {directory: $1, every: 5, keep: 3}
END
}

# ranks N COMMAND...: as N replicas under mpirun
ranks() { under "$@" --set "parallel.dp=$1"; }

# branch OF NAME STEP: a job NAME.yaml, as OF was when it had just saved STEP
branch() {
  local step
  step=$(printf 'step-%08d' "$3")
  mkdir "$2" && cp -r "$1/$step" "$2/" && head -n $(($3 + 1)) "$1/metrics.csv" >"$2/metrics.csv" &&
    sed "s/^name: .*/name: $2/; s/directory: $1/directory: $2/" "$1.yaml" >"$2.yaml"
}

# faults FOLDER RULES: for env, in FAULTFS: what a program does below FOLDER meets the RULES of tests/programs/faultfs.c
faults() {
  FAULTFS=("LD_PRELOAD=$BELAY_TEST_PROGRAMS/faultfs.so" "BELAY_FAULTFS_BELOW=$PWD/$1" "BELAY_FAULTFS=$2"
    "ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0")
}

# held GATE: a call has come to the gate, and waits until `touch GATE`
held() { until_true 30 test -e "$1.reached"; }
steps_of() { ls -d "$1"/step-* 2>/dev/null | sed 's/.*step-0*//' | tr '\n' ' '; } # those on the shelf

# to FILE COMMAND...: with its output in FILE, which ends up on the test's when the command fails
to() {
  local out=$1 rc=0; shift
  "$@" >"$out" 2>&1 || { rc=$?; diag "$(cat "$out")"; }
  return $rc
}

losses() { cut -d, -f1,2 "$1/metrics.csv"; }
rows() { cat "$1/metrics.csv" 2>/dev/null | grep -c '^[0-9]'; }
rows_at_least() { [ "$(rows "$1")" -ge "$2" ]; }
# Steps 1..N, each once, in order?
complete() { [ "$(cut -d, -f1 "$1/metrics.csv" | tail -n +2)" = "$(seq 1 "$2")" ]; }
# close_columns COLUMN LIMIT A B: the largest relative difference of a column of A/metrics.csv and B/metrics.csv is at most LIMIT
close_columns() {
  paste -d, <(cut -d, -f"$1" "$3/metrics.csv") <(cut -d, -f"$1" "$4/metrics.csv") | tail -n +2 |
    perl -F, -lane 'BEGIN { $l = shift } $d = abs($F[0] - $F[1]) / abs($F[0]); $m = $d if $d > $m; $n++;
      END { printf "# largest relative difference %.2g over %d steps\n", $m, $n; exit !($n >= 20 && $m <= $l) }' "$2"
}
