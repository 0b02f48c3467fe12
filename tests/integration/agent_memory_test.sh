#!/usr/bin/env bash
# belay-agent and the real belay-shim: an attempt that is over keeps its shim, and nothing else, for what it holds in memory, as long as the controller lists
# its job and no newer attempt has taken it over.
. "$(dirname "$0")/agent_lib.sh"
unset BELAY_SHIM
plan 27
mkdir "$SCRATCH/meet"
ARGV="[\"$BELAY_TEST_PROGRAMS/memory_rank\",\"$SCRATCH/meet\",\"img-$$\",\"100000\"]"
TIER=',"memory_tier":{"buddy":true}'

JOB=90041
order_of() { order $JOB "$1" "$2" plain "$TIER"; } # order_of ATTEMPT PHASE
noted() { [ -e "$SCRATCH/meet/$1.0.$2" ] && [ -e "$SCRATCH/meet/$1.1.$2" ]; }
holds() { # holds ATTEMPT: brings an attempt to where its ranks hold two images each
  desired "$(order_of "$1" prepare)"
  until_true 10 heard "$(report $JOB "$1" ready)"
  desired "$(order_of "$1" go)"
  until_true 10 noted "$1" held
}
ends() { # ends ATTEMPT: stops it and acknowledges its last word; it is not wanted any more
  desired "$(order_of "$1" stop)"
  until_true 10 heard "$(report $JOB "$1" gone)"
  ack $JOB "$1" "$(last_rev $JOB "$1")"
  desired
  settled
}
holders() { find /proc/[0-9]*/fd -lname "/memfd:img-$$-*" 2>/dev/null | cut -d/ -f3 | sort -u; }
no_holders() { [ -z "$(holders)" ]; }

controller ok
agent
until_true 5 logged 'logged in'
ok "two ranks hold images" holds 1
KEEP_JOBS=7,90041
ends 1
FIRST=$(shim_pid 90041.1)
is "the attempt is over and acknowledged: only its shim has the images" "$(holders)" "${FIRST:-none}"
ok "no rank is left" no_ranks
is "nor the scratch" "$(ls -d "$(scratch_of 90041.1)" 2>/dev/null)" ""
ok "the socket for the next attempt is there" test -S "$DIR/attempts/90041.1/memory.sock"

end KILL "$AGENT"
is "the agent's end changes nothing" "$(holders)" "${FIRST:-none}"
forget; agent
ok "a new agent says that the attempt is gone" until_true 5 heard '"t":"hello".*'"$(report 90041 1 gone)"
settled
ack 90041 1 "$(last_rev 90041 1)"; desired; settled
is "and keeps its shim" "$(holders)" "${FIRST:-none}"

ok "the next attempt takes the images over" holds 2
is "both ranks had theirs here" "$(cat "$SCRATCH"/meet/2.*.got)" herehere
ok "the first shim has gone" until_true 5 gone "$FIRST"
ok "and its folder" until_true 5 folder_gone 90041.1
ends 2
SECOND=$(shim_pid 90041.2)
is "the second shim keeps what its ranks held" "$(holders)" "${SECOND:-none}"

# An attempt that ends before it was ready has taken nothing over that matters: the one before it stays.
desired "$(ARGV='["/nonexistent/program"]' order_of 3 prepare)"
ok "the third attempt is refused" until_true 10 heard "$(report 90041 3 refused)"
ack 90041 3 "$(last_rev 90041 3)"; desired
ok "it is forgotten" until_true 5 folder_gone 90041.3
is "the second shim stays" "$(holders)" "${SECOND:-none}"

desired "$(order_of 4 prepare)"
ok "the fourth attempt is ready" until_true 10 heard "$(report 90041 4 ready)"
ok "the second shim has gone" until_true 5 gone "$SECOND"
ends 4
FOURTH=$(shim_pid 90041.4)
is "the fourth has ended before its ranks ran, and keeps what it took over" "$(holders)" "${FOURTH:-none}"
kill9 "$FOURTH"
ok "a shim that dies takes the images along" until_true 5 no_holders
ok "and is forgotten" until_true 5 folder_gone 90041.4

rm "$SCRATCH"/meet/*
JOB=90042
KEEP_JOBS=$JOB
ok "another job holds images" holds 1
ends 1
is "and its shim stays" "$(holders)" "$(shim_pid $JOB.1)"
KEEP_JOBS=
desired
ok "no longer listed: the shim goes" until_true 5 no_holders
ok "and the folder" until_true 5 folder_gone $JOB.1

KEEP_JOBS=$JOB
desired "$(order_of 2 prepare)"
until_true 10 heard "$(report $JOB 2 ready)"
ends 2
LAST=$(shim_pid $JOB.2)
ok "a later one keeps its shim" test -n "$LAST" -a -e "/proc/$LAST"
kill -INT "$AGENT"
ok "an agent that is told to end everything ends kept shims, too" until_true 10 gone "$LAST"
AGENT=
