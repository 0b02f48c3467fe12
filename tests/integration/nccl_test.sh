#!/usr/bin/env bash
# What ranks do together over NCCL (runtime/comm/nccl), with the emulated device and an NCCL over MPI (tests/emu): the checks of comm_test.sh, and what is
# said when a rank is lost.
. "$(dirname "$0")/../lib.sh"
: "${BELAY_TEST_PROGRAMS:?set BELAY_TEST_PROGRAMS to the folder of the built test programs (make check does)}"
export OMP_NUM_THREADS=1 EMU_DEVICES=8
unset BELAY_JOB_ID BELAY_ATTEMPT RANK WORLD_SIZE BELAY_COMM
COMM_CHECK_DEVICE=$(realpath "$BELAY_BIN/../emu/lib/libbelay_cuda.so")
export COMM_CHECK_DEVICE
cd "$SCRATCH" || exit 1

# good N WAY: all checks pass on N ranks, whose buffers travel that way
good() {
  local folder rc=0
  folder=$(mktemp -d "$SCRATCH/ranks-XXXXXX")
  under "$1" "$BELAY_TEST_PROGRAMS/comm_check" "$folder" >out 2>&1 || rc=$?
  [ "$rc" = 0 ] && grep -q "^checked on $1 rank.* $2: good$" out && return
  diag "exit code $rc" "$(head -n 40 out)"
  return 1
}
# ends WHAT: three ranks of which one is perhaps lost; the others wait two seconds for it. Prints what they said.
ends() {
  BELAY_COMM_TIMEOUT=$((2 * ${BELAY_TEST_SLOWDOWN:-1})) under 3 "$BELAY_TEST_PROGRAMS/comm_check" --lost "$1" 2>&1
  echo "exit code $?"
}

ok "2 ranks with a device each" good 2 'on devices'
for n in 3 4; do EMU_STREAMS=lazy EMU_SEED=$n ok "$n ranks, streams that wait" good "$n" 'on devices'; done
ok "8 ranks" good 8 'on devices'
EMU_DEVICES=1 EMU_STREAMS=lazy ok "2 ranks on one device" good 2 staged
like "one line says why" "$(cat out)" 'ranks 0 and 1 share device'

said=$(EMU_DEVICES=1 BELAY_COMM=nccl ends none)
like "NCCL on one device is refused" "$said" 'BELAY_COMM=nccl, but ranks 0 and 1 share device'
said=$(EMU_NCCL_DEAD=1:20 ends none)
like "a peer that has gone is an error at once" "$said" 'of group world.* failed: remote process exited'
like "and ends the others" "$said" 'exit code 1$'
said=$(EMU_NCCL_DEAD=1:20:silent ends none)
like "a peer that says nothing is waited for" "$said" 'group world.* failed: no other rank has moved it within [0-9]* s'
like "the call that did not end is named" "$said" 'its call [0-9]* \((sum|send|receive), [0-9]* bytes out, [0-9]* in\) has not ended'
like "the record tells which had" "$said" 'world.*: call [0-9]*, (sum|send|receive),.*: done'
like "and which had not" "$said" 'world: call [0-9]*, sum,.*: NOT DONE'
said=$(EMU_NCCL_DEAD=2:0 ends none)
like "a rank that does not join is waited for" "$said" 'waiting for the other ranks of group world failed: .* within'
said=$(ends record)
like "SIGUSR2 writes the record" "$said" 'world from 2 to 0 tag 1: call 50, receive, 0 bytes out, 32 in, with rank 2'
like "and nothing else" "$said" 'exit code 0$'
plan "$TAP_COUNT"
