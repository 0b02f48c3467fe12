#!/usr/bin/env bash
# A checkpoint of any mesh is the same on any other: what is loaded there and saved at once has each number bit by bit, and training goes on along the
# same curve. Ten meshes, each axis and ZeRO 0 to 3, a model with experts, tied embeddings, and a vocabulary that nothing divides. Here some pairs, drawn
# anew each time; `make check-reshard` takes all hundred.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
. "$(dirname "$0")/train_lib.sh"

MESHES=(1 "2 dp=2 ep=2 zero=1" "2 tp=2" "4 pp=2 dp=2 zero=2" "4 cp=2 dp=2 zero=0" "4 dp=4 ep=4 zero=3" "4 tp=2 pp=2 schedule=interleaved"
  "8 tp=2 dp=4 ep=2 zero=1" "8 pp=2 cp=2 dp=2 ep=2 zero=2" "8 tp=2 pp=2 dp=2 zero=3")
SAVED=6 # the step whose checkpoint is loaded
ENDS=17

# The update of the next step is skipped in all runs, for a gradient that is not finite: the checkpoint after it holds what was loaded.
export BELAY_FAULT=nangrad@$((SAVED + 1))

moe_job() {
  job_file "$1" llama
  sed -i "s/layers: 2,/layers: 4, kv_heads: 2, vocab: 263, tied: true, experts: 4, top_k: 2,/; s/micro: 4/micro: 2/; s/every: 5, keep: 3/every: 6, keep: 9, busy: wait/
          s/steps: 24/steps: $ENDS/; s/64MiB/256MiB/" "$1.yaml"
}
dense_job() {
  job_file "$1"
  sed -i "s/layers: 2,/layers: 4, vocab: 263,/; s/micro: 4/micro: 2/; s/every: 5, keep: 3/every: 6, keep: 9, busy: wait/; s/steps: 24/steps: $ENDS/
          s/64MiB/256MiB/; s/^  seed:/  precision: bf16\n  seed:/" "$1.yaml"
}

# on MESH NAME SETS...: NAME.yaml on that mesh, with its output in NAME.out
on() {
  local n set sets=() name=$2
  read -r n set <<<"$1"
  for set in $set; do sets+=(--set "parallel.$set"); done
  shift 2
  if [ "$n" -eq 1 ]; then belay-train "$name.yaml" "$@"; else under "$n" belay-train "$name.yaml" "${sets[@]}" "$@"; fi >"$name.out" 2>&1 ||
    { diag "$(cat "$name.out")"; return 1; }
}

step_of() { printf '%s/step-%08d' "$1" "$2"; }
rows_after() { tail -n +$((SAVED + 2)) "$1/metrics.csv" | cut -d, -f1-4; } # step, loss, norm and learning rate
# The rows after the saved step agree to 1e-6 in loss and norm.
same_curve() {
  paste -d, <(rows_after "$1") <(rows_after "$2") |
    perl -F, -lane 'BEGIN { $n = shift } next if $F[1] eq $F[5] && $F[2] eq $F[6];
      for ([1, 5], [2, 6]) { ($x, $y) = @F[@$_]; next if $x eq $y; $d = abs($x - $y) / abs($x); $m = $d if $d > $m; $bad ||= !($d <= 1e-6) }
      END { printf "# %.1g apart\n", $m if $bad; exit($bad || $. != $n) }' $((ENDS - SAVED))
}

# loads FROM NAME MESH SAME: on MESH, the checkpoint of the run FROM goes on as NAME. SAME: it is the mesh that wrote it.
loads() {
  local from=$1 name=$2 mesh=$3 same=$4
  branch "$from" "$name" $SAVED
  on "$mesh" "$name" --set checkpoint.every=$((SAVED + 1)) || return 1
  grep -q "resuming from step $SAVED," "$name.out" || { diag "it does not resume"; return 1; }
  belay checkpoints diff "$(step_of "$from" $SAVED)" "$(step_of "$name" $((SAVED + 1)))" >"$name.diff" || { diag "other numbers:" "$(cat "$name.diff")"; return 1; }
  grep -qE '^tensors ([0-9]+) of \1 are equal bitwise' "$name.diff" || { diag "$(cat "$name.diff")"; return 1; }
  if [ "$same" = 1 ]; then
    [ "$(rows_after "$from")" = "$(rows_after "$name")" ] || { diag "other rows:" "$(rows_after "$from")" "$(rows_after "$name")"; return 1; }
  elif [ "$precision" = fp32 ]; then same_curve "$from" "$name" || return 1; fi
  rm -rf "$name"
}

# from_to WRITER READERS...: numbers of meshes
from_to() {
  local writer=$1 reader from=from$1; shift
  $job "$from"
  ok "saved on ${MESHES[writer]}, $precision" on "${MESHES[writer]}" "$from" || return
  for reader in "$@"; do
    ok "  goes on on ${MESHES[reader]}" loads "$from" "r${writer}to$reader" "${MESHES[reader]}" $((reader == writer))
  done
  rm -rf "$from"
}

SEED=${SEED:-$RANDOM}
RANDOM=$SEED
diag "SEED=$SEED"
job=moe_job precision=fp32
if [ "${RESHARD:-}" = all ]; then
  for writer in "${!MESHES[@]}"; do from_to "$writer" "${!MESHES[@]}"; done
else # two writers, of which one has at most two ranks, and for each two others and itself
  a=$((RANDOM % 3)) b=$((RANDOM % 7 + 3))
  from_to $a $a $((RANDOM % 7 + 3)) $(((a + 1) % 3))
  from_to $b $b $((b == 9 ? 3 : b + 1))
fi

# --- in bf16 the weights that are computed with have 16 bits; those that are kept have 32
low_bits() { # how many in a hundred of the numbers of a shard have low bits
  perl -e 'local $/; open my $f, "<:raw", shift; $_ = <$f>; my @x = unpack "V*", substr $_, 8 + unpack("Q<", $_);
    my @w = grep { $_ } @x; printf "%d\n", 100 * (grep { $_ & 0xffff } @w) / @w' "$1"
}
job=dense_job precision=bf16 MESHES=(1 "2 tp=2" "4 dp=4 zero=3" "4 pp=2 dp=2 zero=1")
dense_job bits
on "2 dp=2 zero=1" bits --set train.steps=$SAVED
ok "bf16: what is saved has all its bits" test "$(low_bits "$(step_of bits $SAVED)/rank-00001.safetensors")" -gt 90
if [ "${RESHARD:-}" = all ]; then
  for writer in "${!MESHES[@]}"; do from_to "$writer" "${!MESHES[@]}"; done
else
  a=$((RANDOM % 4))
  from_to $a $(((a + 1) % 4))
fi
plan "$TAP_COUNT"
