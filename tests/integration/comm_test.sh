#!/usr/bin/env bash
# What ranks do together (runtime/comm) over MPI: every call against a plain computation, bit by bit, on 1, 2, 3, 5 and 8 ranks;
# and with buffers on a device, staged.
. "$(dirname "$0")/../lib.sh"
: "${BELAY_TEST_PROGRAMS:?set BELAY_TEST_PROGRAMS to the folder of the built test programs (make check does)}"
export OMP_NUM_THREADS=1
unset BELAY_JOB_ID BELAY_ATTEMPT RANK WORLD_SIZE
cd "$SCRATCH" || exit 1
plan 20

# run N PROGRAM ARGUMENT...: as N ranks; 0 = without mpirun
run() {
  local n=$1 launch=(timeout "$((120 * ${BELAY_TEST_SLOWDOWN:-1}))"); shift
  [ "$n" = 0 ] || launch=(under "$n")
  "${launch[@]}" "$BELAY_TEST_PROGRAMS/$1" "${@:2}" >out 2>&1
}
# good N PROGRAM: all its checks pass on N ranks
good() {
  local folder rc=0
  folder=$(mktemp -d "$SCRATCH/ranks-XXXXXX")
  run "$1" "$2" "$folder" || rc=$?
  [ "$rc" = 0 ] && grep -q "^checked on .*: good$" out && return
  diag "exit code $rc" "$(head -n 40 out)"
  return 1
}
# refused WHAT SENTENCE: the misuse ends the process and says so
refused() {
  local rc=0
  { run 0 comm_check --misuse "$1"; rc=$?; } 2>/dev/null # the shell tells of the abort, too
  [ "$rc" = 134 ] && grep -q "$2" out && return # SIGABRT
  diag "exit code $rc" "$(cat out)"
  return 1
}

# wrong_way ASKED SENTENCE: two ranks on one device cannot travel as BELAY_COMM asks, and say so
wrong_way() {
  local rc=0
  COMM_CHECK_DEVICE=fake BELAY_COMM=$1 run 2 comm_check none || rc=$?
  [ "$rc" = 2 ] && grep -q "$2" out && return
  diag "exit code $rc" "$(cat out)"
  return 1
}

ok "one rank without a launcher" good 0 comm_check
for n in 1 2 3 5 8; do ok "$n rank(s)" good "$n" comm_check; done
is "of 8 ranks all were in one world" "$(grep -c 'checked on 8 rank' out)" 1
ok "3 ranks, double" good 3 comm_check_double
like "and it was double" "$(cat out)" 'in double: good'
UNDER_BTL=self,tcp ok "2 ranks over sockets instead of shared memory" good 2 comm_check
ok "waiting for a message to itself that is never sent is refused" refused self 'other half'
ok "a peer outside the group is refused" refused peer 'names a peer'
ok "a message to itself of another size is refused" refused bytes 'another size'

for n in 1 2 3 8; do COMM_CHECK_DEVICE=fake ok "$n rank(s), staged" good "$n" comm_check; done
like "one line says why" "$(grep -c 'goes through the hosts' out) $(cat out)" '^1 .*rank 0 has no direct way to other devices'
ok "NCCL where it cannot be is refused" wrong_way nccl 'give each rank a GPU of its own'
ok "a way that there is not is refused" wrong_way ncl 'set it to nccl or staged'
