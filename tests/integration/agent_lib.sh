# Shared by the tests of belay-agent: tests/lib.sh, a controller that says and hears single lines (tests/programs/fake_belayd.c), one
# agent, and questions about attempts.
. "$(dirname "$0")/../lib.sh"
: "${BELAY_TEST_PROGRAMS:?set BELAY_TEST_PROGRAMS to the folder of the built test programs (make check does)}"
SECRET=0123456789abcdef0123456789abcdef
TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') # other runs of these tests on this host end what has theirs
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
  printf '{"job":%d,"attempt":%d,"phase":"%s","token":"%s","name":"%s","user":"u","uid":%d,"gid":%d,"cwd":"/","spec":"","argv":%s,"env":{},"device":"cpu","cpus":1,"memory":1,"world":2,"node_rank":0,"nodes":1,"ranks":[{"rank":0,"slot":0},{"rank":1,"slot":1}],"grace_ms":100,"checkpoint":0,"kill":false,"reason":"","map":[{"node":"node0","addr":"127.0.0.1","port":1,"master_port":1,"ranks":[0,1]}]%s}' \
    "$1" "$2" "$3" "${TOKEN_NOW:-$TOKEN}" "${4:-plain}" "$(id -u)" "$(id -g)" "${ARGV:-[\"x\"]}" "${5:-}"
}
desired() { local IFS=,; say "{\"t\":\"desired\",\"attempts\":[$*],\"keep\":[${KEEP_JOBS:-}]}"; } # KEEP_JOBS: those whose ended attempts hold memory
ack() { say "{\"t\":\"ack\",\"job\":$1,\"attempt\":$2,\"rev\":$3}"; }
last_rev() { grep -o "\"job\":$1,\"attempt\":$2,\"rev\":[0-9]*" "$OUT" | tail -n1 | sed 's/.*://'; }
shim_pid() { sed -n 's/.*"pid": *\([0-9]*\).*/\1/p;/"pid"/q' "$DIR/attempts/$1/shim.pid"; }
scratch_of() { json .scratch <"$DIR/attempts/$1/state.json"; } # scratch_of JOB.ATTEMPT
folder_gone() { [ ! -e "$DIR/attempts/$1" ]; }
rank_pids() { processes_with "BELAY_TOKEN=$TOKEN"; }
ranks() { rank_pids | wc -l; }
no_ranks() { [ "$(ranks)" = 0 ]; }
report() { # report JOB ATTEMPT PHASE: regex of a report message
  printf '"job":%d,"attempt":%d,"rev":[0-9]+,"phase":"%s"' "$1" "$2" "$3"
}
going() { # going JOB ATTEMPT [NAME]: brings an attempt to its go
  desired "$(order "$1" "$2" prepare "${3:-}")"
  until_true 5 heard "$(report "$1" "$2" ready)"
  desired "$(order "$1" "$2" go "${3:-}")"
}
running() { # running JOB ATTEMPT [NAME]: brings an attempt up
  going "$@"
  until_true 5 heard "$(report "$1" "$2" running)"
}
SETTLED=100
settled() { # the agent has worked through all that was sent to it before
  SETTLED=$((SETTLED + 1))
  say "{\"t\":\"read_log\",\"id\":$SETTLED,\"job\":1,\"attempt\":1,\"rank\":0,\"offset\":0,\"limit\":1}"
  until_true 5 heard "\"t\":\"log\",\"id\":$SETTLED,"
}
exits() { wait "$1"; [ $? = "$2" ]; } # exits PID CODE
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
  for p in $(rank_pids); do kill -KILL "$p"; done
  [ "$TAP_FAILED" -eq 0 ] || tail -n 40 "$LOG" "$OUT" 2>/dev/null | cut -c1-600 | sed 's/^/# /' >&2
  for f in "$DIR"/attempts/*/state.json; do
    [ -e "$f" ] && p=$(json .scratch <"$f") && case "$p" in */belay-900*) rm -rf "$p" ;; esac
  done
  finish
}
trap cleanup EXIT
