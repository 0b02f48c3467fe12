#!/usr/bin/env bash
# Programs of any kind through `run:`: MPI and torch.distributed unchanged, stubborn grandchildren, first failing ranks.
. "$(dirname "$0")/../lib.sh"
plan 38
programs=$(cd "$(dirname "$0")/../programs" && pwd)
cd "$SCRATCH" || exit 1

spec() { # spec NAME RANKS COMMAND...: a run: job with restarts off and a short grace
  local name=$1 ranks=$2; shift 2
  printf 'name: %s\nrun:\n  ranks: %s\n  command:\n' "$name" "$ranks"
  printf '    - "%s"\n' "$@"
  printf 'resources: {device: cpu, cpus: 1, memory: 64MiB}\nrestart: {max: 0}\nlimits: {grace: 1s}\n'
}
start() { local name=$1; spec "$@" >"$name.yaml"; belay submit "$name.yaml"; }
seconds_until_left_running() { # JOB: milliseconds until the job is no longer running
  local from; from=$(date +%s%N)
  until_true 10 left_running "$1"
  echo $(( ($(date +%s%N) - from) / 1000000 ))
}
left_running() { ! job_is "$1" running; }
no_process_of() { [ -z "$(processes_with "BELAY_JOB_ID=$1")" ]; }

ok "two nodes with two slots" quiet belay up --nodes 2 --slots 2 || exit 1

# --- MPI
spec mpi 4 "$BELAY_TEST_PROGRAMS/mpi_ring" 4 >mpi.yaml
belay run mpi.yaml --all-ranks >mpi.out 2>&1
is "an MPI program (send, receive, allreduce) over 4 ranks on 2 nodes exits 0" $? 0
id=$(belay status --all -o json | json .0.id)
is "it ran on both nodes" "$(belay describe "$id" -o json | perl -MJSON::PP -e 'local $/; my %n; $n{$_->{node}}++ for @{decode_json(<STDIN>)->{attempts}[0]{placement}}; print join ",", map {"$_:$n{$_}"} sort keys %n')" "node0:2,node1:2"
like "MPI_COMM_WORLD had 4 ranks and the sum is right" "$(cat mpi.out)" "rank 3 of 4 sum 10 .*ok"

# --- torch.distributed
if /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null; then
  spec gloo 4 /usr/bin/python3 "$programs/gloo.py" 4 >gloo.yaml
  belay run gloo.yaml --all-ranks >gloo.out 2>&1
  is "a torch.distributed gloo program starts unchanged" $? 0
  like "its all_reduce saw every rank" "$(cat gloo.out)" "rank 3 of 4 sum 10 ok"
else
  skip "a torch.distributed gloo program starts unchanged" "python3-torch is not installed"
  skip "its all_reduce saw every rank" "python3-torch is not installed"
fi

# --- no process survives
id=$(start stubborn 1 "$programs/stubborn.sh" "$SCRATCH/s")
ok "a rank with a setsid grandchild that ignores SIGTERM runs" until_true 20 test -s s.grandchild
ok "cancel is accepted" quiet belay cancel "$id"
ok "the job is cancelled" until_true 20 job_is "$id" cancelled
ok "no process of it is left" no_process_of "$id"
ok "the grandchild is gone" test ! -e "/proc/$(cat s.grandchild)"

# --- first failing rank, within a second
fails() { # NAME MODE RANK EXPECTED-WORDS
  local name=$1 mode=$2 rank=$3 words=$4 id ms
  id=$(start "$name" 4 "$BELAY_TEST_PROGRAMS/mpi_fail" "$mode" "$rank" "$SCRATCH/$name.go")
  until_true 30 job_is "$id" running
  until_true 20 test -e "$SCRATCH/$name.go.ready"
  : >"$SCRATCH/$name.go"
  ms=$(seconds_until_left_running "$id")
  ok "$name: the job leaves running within a second ($ms ms)" within "$ms" 1001
  until_true 20 job_ended "$id"
  is "$name: the job failed" "$(job "$id" .state)" failed
  is "$name: the first failing rank is named" "$(job "$id" .first_failure)" "$rank"
  like "$name: in words" "$(job "$id" .reason)" "$words"
}
fails exit0 exit0 2 "rank 2 .*before it finished"
fails exit1 exit1 1 "rank 1 .*exit(ed with| code) 1"
fails segv segv 3 "rank 3 .*SIGSEGV"

# --- the same for ranks of the bundled runtime, by its own account of faults (docs/belay-train.md)
cat /usr/share/common-licenses/GPL-3 >corpus.txt
ms_until_stopping() { # JOB RANK: from the end of the rank to the event that its attempt is stopped
  perl -MJSON::PP -MTime::Local -e '
    my ($describe, $events, $rank) = @ARGV;
    my ($stop) = grep { $_->{kind} eq "stopping" } @{decode_json($events)};
    my ($y, $mo, $d, $h, $mi, $s, $ms) = $stop->{time} =~ /(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)/ or die "no stop";
    my ($r) = grep { $_->{rank} == $rank } @{decode_json($describe)->{attempts}[0]{ranks}};
    print timegm($s, $mi, $h, $d, $mo - 1, $y) * 1000 + $ms - $r->{ended_ms}, "\n"' \
    "$(belay describe "$1" -o json)" "$(belay events --job "$1" -o json)" "$2"
}
train_fails() { # NAME FAULT RANK EXPECTED-WORDS
  local name=$1 fault=$2 rank=$3 words=$4 id ms
  cat >"$name.yaml" <<Y
name: $name
train:
  model: {arch: gpt2, layers: 1, hidden: 32, heads: 2, context: 32}
  data: {path: corpus.txt}
  steps: 1000000
  batch: {global: 8, micro: 2}
parallel: {dp: 4}
resources: {device: cpu}
restart: {max: 0}
env: {BELAY_FAULT: "$fault@20:rank=$rank"}
Y
  id=$(belay submit "$name.yaml")
  until_true 40 job_ended "$id"
  is "$name: the job failed" "$(job "$id" .state)" failed
  is "$name: the first failing rank is named" "$(job "$id" .first_failure)" "$rank"
  like "$name: in words" "$(job "$id" .reason)" "$words"
  ms=$(ms_until_stopping "$id" "$rank")
  ok "$name: the job left running within a second (${ms:-?} ms)" within "${ms:-999999}" 1000
}
train_fails train-exit0 exit0 2 "rank 2 .*before it finished"
train_fails train-exit1 exit1 1 "rank 1 .*exit(ed with| code) 1"
train_fails train-segv segv 3 "rank 3 .*SIGSEGV"

# --- plain programs may end at different times
id=$(start plain 3 /bin/bash -c 'sleep 0.$RANK; exit 0')
until_true 20 job_ended "$id"
is "ranks of a plain program may end with 0 at different times" "$(job "$id" .state)" completed

# --- completion is completion, failure is failure
spec one 1 /bin/true >one.yaml
belay run one.yaml >/dev/null 2>&1
is "belay run exits 0 with the program" $? 0
spec two 1 /bin/false >two.yaml
belay run two.yaml >/dev/null 2>&1
is "belay run exits 1 when the job failed" $? 1
