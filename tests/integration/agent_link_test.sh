#!/usr/bin/env bash
# belay-agent between a controller and shims that are stand-ins (tests/programs/fake_*.c), so that each side can fail on purpose.
. "$(dirname "$0")/../lib.sh"
: "${BELAY_TEST_PROGRAMS:?set BELAY_TEST_PROGRAMS to the folder of the built test programs (make check does)}"
export BELAY_SHIM=$BELAY_TEST_PROGRAMS/fake_shim
SECRET=0123456789abcdef0123456789abcdef
TOKEN=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
DIR=$SCRATCH/agents/node0 OUT=$SCRATCH/heard LOG=$SCRATCH/agent.log
CONTROLLER= AGENT= PORT=0
mkfifo "$SCRATCH/say"; exec 7<>"$SCRATCH/say"
(umask 077; echo $SECRET >"$SCRATCH/secret"; echo wrong-wrong-wrong-wrong >"$SCRATCH/wrong")

controller() { # controller MODE: on the port of the earlier one
  : >"$OUT"
  "$BELAY_TEST_PROGRAMS/fake_belayd" "$PORT" $SECRET "$1" <&7 >>"$OUT" & CONTROLLER=$!
  until_true 5 heard '"listening"'
  PORT=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p;q' "$OUT")
}
agent() { # agent [FLAGS]
  belay-agent --dir "$DIR" --name node0 --controller "127.0.0.1:$PORT" --secret-file "$SCRATCH/secret" --slots 2 "$@" 2>>"$LOG" 7>&- &
  AGENT=$!
}
end() { # end SIGNAL PID
  [ -z "$2" ] || { kill -"$1" "$2" 2>/dev/null; wait "$2" 2>/dev/null; }
}
say() { printf '%s\n' "$1" >&7; }
heard() { grep -qE -- "$1" "$OUT"; }
logged() { grep -qE -- "$1" "$LOG"; }
forget() { : >"$OUT"; }
gone() { ! kill -0 "$1" 2>/dev/null || [ "$(sed 's/.*) //;s/ .*//' "/proc/$1/stat" 2>/dev/null)" = Z ]; }
order() { # order JOB ATTEMPT PHASE [NAME] [MORE]
  printf '{"job":%d,"attempt":%d,"phase":"%s","token":"%s","name":"%s","user":"u","uid":%d,"gid":%d,"cwd":"/","spec":"","argv":["x"],"env":{},"device":"cpu","cpus":1,"memory":1,"world":2,"node_rank":0,"nodes":1,"ranks":[{"rank":0,"slot":0},{"rank":1,"slot":1}],"grace_ms":100,"checkpoint":0,"kill":false,"reason":"","map":[{"node":"node0","addr":"127.0.0.1","port":1,"master_port":1,"ranks":[0,1]}]%s}' \
    "$1" "$2" "$3" "${TOKEN_NOW:-$TOKEN}" "${4:-plain}" "$(id -u)" "$(id -g)" "${5:-}"
}
desired() { local IFS=,; say "{\"t\":\"desired\",\"attempts\":[$*]}"; }
ack() { say "{\"t\":\"ack\",\"job\":$1,\"attempt\":$2,\"rev\":$3}"; }
last_rev() { grep -o "\"job\":$1,\"attempt\":$2,\"rev\":[0-9]*" "$OUT" | tail -n1 | sed 's/.*://'; }
shim_pid() { sed -n 's/.*"pid": *\([0-9]*\).*/\1/p;/"pid"/q' "$DIR/attempts/$1/shim.pid"; }
folder_gone() { [ ! -e "$DIR/attempts/$1" ]; }
ranks() { processes_with "BELAY_TOKEN=$TOKEN" 2>/dev/null | wc -l; }
no_ranks() { [ "$(ranks)" = 0 ]; }
report() { # report JOB ATTEMPT PHASE: regex of a report message
  printf '"job":%d,"attempt":%d,"rev":[0-9]+,"phase":"%s"' "$1" "$2" "$3"
}
running() { # running JOB ATTEMPT [NAME]: brings an attempt up
  desired "$(order "$1" "$2" prepare "${3:-}")"
  until_true 5 heard "$(report "$1" "$2" ready)"
  desired "$(order "$1" "$2" go "${3:-}")"
  until_true 5 heard "$(report "$1" "$2" running)"
}
SETTLED=100
settled() { # the agent has worked through all that was sent to it before
  SETTLED=$((SETTLED + 1))
  say "{\"t\":\"read_log\",\"id\":$SETTLED,\"job\":1,\"attempt\":1,\"rank\":0,\"offset\":0,\"limit\":1}"
  until_true 5 heard "\"t\":\"log\",\"id\":$SETTLED,"
}
said_twice() { [ "$(grep -cE "\"t\":\"report\",$1" "$OUT")" -ge 2 ]; }
over() { # over JOB ATTEMPT: acknowledged and not wanted
  ack "$1" "$2" "$(last_rev "$1" "$2")"; desired
  until_true 5 folder_gone "$1.$2"
}
cleanup() {
  end KILL "$AGENT"; end KILL "$CONTROLLER"
  local f p
  for f in "$DIR"/attempts/*/shim.pid; do
    [ -e "$f" ] && p=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p;/"pid"/q' "$f") && kill -KILL "$p" 2>/dev/null
  done
  for p in $(processes_with "BELAY_TOKEN=$TOKEN" 2>/dev/null); do kill -KILL "$p"; done
  [ "$TAP_FAILED" -eq 0 ] || tail -n 40 "$LOG" "$OUT" 2>/dev/null | cut -c1-600 | sed 's/^/# /' >&2
  rm -rf /dev/shm/belay-9000[1-9].*
  finish
}
trap cleanup EXIT
plan 47

# ---- settings ----
bad() { belay-agent "$@" 2>&1; echo "rc=$?"; }
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
is "an order that goes back is ignored" "$(ranks)" 2
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
PID=$(shim_pid 90002.2)
START=$(date +%s%N)
kill -KILL "$PID"
ok "a killed shim is a lost attempt" until_true 5 heard "$(report 90002 2 lost)"'.*belay-shim died \(signal 9\); its 2 ranks were killed'
TOOK=$(( ($(date +%s%N) - START) / 1000000 )); diag "lost after $TOOK ms"
ok "within half a second" test "$TOOK" -lt 500
ok "its ranks are gone" no_ranks
ok "also what shed session and environment" test -z "$(pgrep -P "$AGENT")"
ok "its scratch is gone" test -z "$(ls -d /dev/shm/belay-90002.2-* 2>/dev/null)"
over 90002 2

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
kill -KILL "$PID"; until_true 5 gone "$PID"
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

# ---- the controller goes and comes back ----
running 90004 1
end KILL "$CONTROLLER"
kill -KILL "$(shim_pid 90004.1)"
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
ok "SIGINT kills every attempt, then exits" until_true 5 gone "$AGENT"
ok "its shim and ranks are gone" test "$(ranks)" = 0 -a "$(gone "$PID" && echo yes)" = yes
AGENT=
