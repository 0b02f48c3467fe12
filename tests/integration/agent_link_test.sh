#!/usr/bin/env bash
# belay-agent between a controller and shims that are stand-ins (tests/programs/fake_*.c), so that each side can fail on purpose.
. "$(dirname "$0")/agent_lib.sh"
export BELAY_SHIM=$BELAY_TEST_PROGRAMS/fake_shim
plan 60

# ---- settings ----
bad() { timeout 5 belay-agent "$@" 2>&1; echo "rc=$?"; }
like "a missing flag is named" "$(bad --dir x --name n --controller h:1)" '--secret-file is missing.*'
like "a hostile node name is refused" "$(bad --dir x --name 'a/b' --controller h:1 --secret-file x)" 'node name "a/b" is not allowed'
like "a controller without a port is refused, exit 2" "$(bad --dir x --name n --controller host --secret-file x | tr '\n' ' ')" 'not HOST:PORT.*rc=2'
chmod 644 "$SCRATCH/wrong"
like "a secret that others can read is refused" "$(bad --dir x --name n --controller h:1 --secret-file "$SCRATCH/wrong")" 'chmod 600'
chmod 600 "$SCRATCH/wrong"
like "--version" "$(belay-agent --version)" '^belay-agent [0-9]'

# ---- login ----
controller ok
agent --secret-file "$SCRATCH/wrong"
ok "a wrong secret is refused and said" until_true 5 logged 'belayd refused this node: the proof does not fit'
ok "the controller saw a wrong proof" heard wrong-proof
end TERM "$AGENT"; end KILL "$CONTROLLER"
controller badproof
agent
ok "a controller that does not know the secret is not obeyed" until_true 5 logged 'does not know the cluster'
end TERM "$AGENT"; end KILL "$CONTROLLER"
controller ok
agent --rack r1 --pod p1
ok "logs in" until_true 5 logged 'logged in'
ok "hello has the inventory" heard '"t":"hello".*"slots":2.*"device":"cpu".*"rack":"r1","pod":"p1"'
ok "the address of a loopback controller is 127.0.0.1" heard '"address":"127.0.0.1"'
ok "heartbeats come" until_true 5 heard '"t":"heartbeat"'
like "a second agent in the folder is refused" "$(bad --dir "$DIR" --name node0 --controller "127.0.0.1:$PORT" --secret-file "$SCRATCH/secret")" 'another belay-agent works in'

# ---- one attempt from order to forgotten folder ----
running 90001 1
ok "prepare, ready, go, running" heard "$(report 90001 1 running)"
ok "progress is passed on" until_true 5 heard '"t":"progress","job":90001,"attempt":1,"rank":1,"values":\{"STEP":"1"\}'
is "two ranks run" "$(ranks)" 2
desired "$(order 90001 1 prepare)"
mkdir -p "$DIR/logs/90001/1"
printf 'hello ' >"$DIR/logs/90001/1/rank-00001.000000000000.log"
printf 'world\n' >"$DIR/logs/90001/1/rank-00001.000000000006.log"
say '{"t":"read_log","id":5,"job":90001,"attempt":1,"rank":1,"offset":0,"limit":4096}'
ok "read_log goes over segments" until_true 5 heard "\"t\":\"log\",\"id\":5,\"offset\":0,\"next\":12,\"size\":12,\"data\":\"$(printf 'hello world\n' | base64)\""
say '{"t":"read_log","id":6,"job":90001,"attempt":1,"rank":1,"offset":-1,"limit":4}'
ok "read_log of the tail" until_true 5 heard "\"id\":6,\"offset\":8,\"next\":12,\"size\":12,\"data\":\"$(printf 'rld\n' | base64)\""
say '{"t":"read_log","id":7,"job":90002,"attempt":1,"rank":1,"offset":0,"limit":4}'
ok "read_log of nothing says so" until_true 5 heard '"id":7.*"error":"node node0 has no log of rank 1 of job 90002'
ok "an order that goes back is ignored" grep -q '"phase": "go"' "$DIR/attempts/90001.1/order.json"
desired "$(order 90001 1 stop)"
ok "stop leads to gone" until_true 5 heard "$(report 90001 1 gone)"
ok "no rank is left" no_ranks
desired; settled
ok "without acknowledgement the folder stays" test -e "$DIR/attempts/90001.1/state.json"
ok "and the report is said again" until_true 5 said_twice "$(report 90001 1 gone)"
PID=$(shim_pid 90001.1)
over 90001 1
ok "acknowledged and not wanted: the folder is removed" folder_gone 90001.1
ok "and the shim has gone" until_true 5 gone "$PID"
ok "logs stay" test -e "$DIR/logs/90001/1/rank-00001.000000000000.log"

# ---- what goes wrong with shims ----
desired "$(order 90002 1 prepare exits)"
ok "a shim that ends at once is a refusal with its last words" until_true 5 heard "$(report 90002 1 refused)"'.*exit code 3\) before it was up: there is no room for this job'
over 90002 1
running 90002 2 sheds
until_true 5 test "$(ranks)" -ge 2
PID=$(shim_pid 90002.2) USED=$(scratch_of 90002.2)
START=$(date +%s%N)
kill9 "$PID"
ok "a killed shim is a lost attempt" until_true 5 heard "$(report 90002 2 lost)"'.*belay-shim died \(signal 9\); its 2 ranks were killed'
TOOK=$(( ($(date +%s%N) - START) / 1000000 )); diag "lost after $TOOK ms"
ok "within half a second" within "$TOOK" 500
ok "its ranks are gone" no_ranks
ok "also what shed session and environment" test -z "$(pgrep -P "$AGENT")"
ok "its scratch is gone" test -n "$USED" -a ! -e "$USED"
over 90002 2

mkdir -p "$DIR/attempts"; echo in the way >"$DIR/attempts/90002.3"
desired "$(order 90002 3 prepare)"
ok "a folder that cannot be made is a refusal" until_true 5 heard "$(report 90002 3 refused)"'.*cannot make the attempt folder'
rm "$DIR/attempts/90002.3"
over 90002 3
running 90002 4 deaf
PID=$(shim_pid 90002.4)
desired
ok "a shim that does not stop its ranks is ended" until_true 15 heard "$(report 90002 4 lost)"'.*its 2 ranks were killed'
ok "with its ranks" no_ranks
over 90002 4

# ---- a controller that talks nonsense ----
running 90002 5
for nonsense in '{"t":"desired"}' '{"t":"desired","attempts":[{"job":1}]}' '{"t":7}' '{"t":"ack","job":-1,"attempt":1,"rev":1}' '{broken' '{"t":"welcome"}'; do
  forget; say "$nonsense"
  ok "closes the link and logs in again after $nonsense" until_true 10 heard '"t":"hello"'
done
is "and no rank minds" "$(ranks)" 2
say '{"t":"something newer"}'; say '{"t":"read_log","id":9,"job":1}'
ok "what is newer is passed over, a bad log request answered" until_true 5 heard '"id":9.*"error":"'
desired
until_true 5 heard "$(report 90002 5 gone)"
over 90002 5

# ---- the agent dies and comes back ----
running 90003 1
PID=$(shim_pid 90003.1)
end KILL "$AGENT"
ok "ranks go on without an agent" test "$(ranks)" = 2
forget
agent
ok "a new agent finds the shim and says it in hello" until_true 5 heard '"t":"hello".*'"$(report 90003 1 running)"
settled
ok "and kills nothing before it was told to" test "$(ranks)" = 2
end KILL "$AGENT"
kill9 "$PID"; until_true 5 gone "$PID"
forget
agent
ok "a shim that died meanwhile is lost, its ranks killed" until_true 5 heard "$(report 90003 1 lost)"'.*died while the agent was away; its 2 ranks were killed'
ok "no rank is left of it" no_ranks
end KILL "$AGENT"; forget
agent
ok "the lost report survives the agent" until_true 5 heard '"t":"hello".*'"$(report 90003 1 lost)"
desired "$(order 90003 1 prepare)"
settled
ok "an attempt is never started twice" test ! -e "$DIR/attempts/90003.1/shim.sock" -o "$(ranks)" = 0
over 90003 1

one_shim() { [ "$(pgrep -fc "^belay-shim $DIR/attempts/90003.2\$")" = 1 ]; }
for i in 1 2 3 4 5 6 7 8; do # killed at any moment of a start: never two shims, never none
  desired "$(order 90003 2 prepare)"
  sleep 0.00$i # the moments differ; nothing is waited for
  end KILL "$AGENT"; forget; agent
  until_true 5 heard '"t":"hello"'
done
desired "$(order 90003 2 prepare)"
ok "an agent killed while it starts a shim" until_true 10 heard "$(report 90003 2 ready)"
ok "leaves one shim" one_shim
desired
until_true 5 heard "$(report 90003 2 gone)"
over 90003 2

# ---- the controller goes and comes back ----
running 90004 1
end KILL "$CONTROLLER"
kill9 "$(shim_pid 90004.1)"
until_true 5 no_ranks
controller ok
ok "what happened meanwhile is said after the login" until_true 5 heard '"t":"hello".*'"$(report 90004 1 lost)"
over 90004 1
running 90005 1
end KILL "$CONTROLLER"; controller ok
until_true 5 heard '"t":"hello"'
desired
ok "what the controller does not want is killed" until_true 5 heard "$(report 90005 1 gone)"
over 90005 1
desired "$(order 90006 1 go)"
ok "an order for an unknown attempt is answered" until_true 5 heard "$(report 90006 1 lost)"
over 90006 1
running 90007 1
TOKEN_NOW=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb desired "$(TOKEN_NOW=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb order 90007 1 prepare)"
ok "the same number with another token ends what is here" until_true 5 heard "$(report 90007 1 gone)"
over 90007 1

# ---- signals ----
running 90008 1
end TERM "$AGENT"
ok "SIGTERM leaves the ranks" test "$(ranks)" = 2
agent
until_true 5 heard '"t":"hello".*'"$(report 90008 1 running)"
PID=$(shim_pid 90008.1)
kill -INT "$AGENT"
ok "SIGINT kills every attempt, then exits with 0" exits "$AGENT" 0
ok "its shim and ranks are gone" test "$(ranks)" = 0 -a "$(gone "$PID" && echo yes)" = yes
AGENT=
