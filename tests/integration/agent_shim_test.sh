#!/usr/bin/env bash
# belay-agent with the real belay-shim, below a stand-in controller: a plain program on one node.
. "$(dirname "$0")/agent_lib.sh"
unset BELAY_SHIM
ARGV='["/bin/sh","-c","echo rank $RANK of $WORLD_SIZE on $BELAY_NODE; exec sleep 1000"]'
plan 20

controller ok
agent
until_true 5 logged 'logged in'
running 90011 1
ok "two ranks come up through the real shim" heard "$(report 90011 1 running)"
is "they carry the token" "$(ranks)" 2
wrote() { [ -s "$DIR/logs/90011/1/rank-00001.000000000000.log" ]; }
until_true 5 wrote
say '{"t":"read_log","id":1,"job":90011,"attempt":1,"rank":1,"offset":0,"limit":4096}'
ok "their output is read through the agent" until_true 5 heard "\"id\":1,.*\"data\":\"$(printf 'rank 1 of 2 on node0\n' | base64)\""

end KILL "$AGENT"
is "ranks go on without an agent" "$(ranks)" 2
forget; agent
ok "a new agent finds the shim" until_true 5 heard '"t":"hello".*'"$(report 90011 1 running)"
settled
is "and its ranks" "$(ranks)" 2
desired "$(order 90011 1 stop)"
ok "stop leads to gone" until_true 5 heard "$(report 90011 1 gone)"
ok "nothing is left" no_ranks
PID=$(shim_pid 90011.1) USED=$(scratch_of 90011.1)
over 90011 1
ok "acknowledged and not wanted: the shim goes" until_true 5 gone "$PID"
ok "and the folder" folder_gone 90011.1
ok "and the scratch" test -n "$USED" -a ! -e "$USED"

ARGV='["/bin/sh","-c","(setsid sleep 1000 &) ; (env -i setsid sleep 1000 &) ; exec sleep 1000"]'
running 90012 1
PID=$(shim_pid 90012.1) USED=$(scratch_of 90012.1)
START=$(date +%s%N)
kill9 "$PID"
ok "a killed shim is a lost attempt" until_true 5 heard "$(report 90012 1 lost)"'.*belay-shim died \(signal 9\); its 2 ranks were killed'
TOOK=$(( ($(date +%s%N) - START) / 1000000 )); diag "lost after $TOOK ms"
ok "within half a second" within "$TOOK" 500
ok "nothing is left of it" no_ranks
is "not even what shed session and environment" "$(pgrep -P "$AGENT")" ""
ok "nor the scratch" test -n "$USED" -a ! -e "$USED"
over 90012 1

ARGV='["/nonexistent/program"]'
desired "$(order 90013 1 prepare)"
until_true 5 heard "\"job\":90013,\"attempt\":1,\"rev\":[0-9]+,\"phase\":\"(ready|refused)\""
desired "$(order 90013 1 go)"
ok "a program that is not there is said" until_true 5 heard '"job":90013.*nonexistent/program'
over 90013 1

ARGV='["/bin/sh","-c","exit 3"]'
going 90014 1 # such ranks may be gone before anyone hears that they ran
ok "exit codes arrive" until_true 5 heard "$(report 90014 1 gone)"'.*"code":3'
over 90014 1

ARGV='["/bin/sleep","1000"]'
running 90015 1
PID=$(shim_pid 90015.1)
kill -INT "$AGENT"
ok "SIGINT kills every attempt, then exits with 0" exits "$AGENT" 0
ok "shim and ranks are gone" test "$(ranks)" = 0 -a "$(gone "$PID" && echo yes)" = yes
AGENT=
