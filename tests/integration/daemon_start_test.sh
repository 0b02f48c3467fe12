#!/usr/bin/env bash
# Starting and stopping belayd: one per folder, the secret's mode, settings, what a kill leaves behind, older and newer states.
. "$(dirname "$0")/daemon_lib.sh"
# refused NAME PATTERN ARGS...: belayd with these arguments ends with a sentence.
refused() {
  local name=$1 pattern=$2 out rc; shift 2
  out=$(timeout 20 belayd "$@" 2>&1); rc=$?
  if [ $rc -eq 1 ] || [ $rc -eq 2 ]; then like "$name" "$out" "$pattern"; else ok "$name" false || diag "exit $rc" "$out"; fi
}
start_belayd
is "a new secret is mode 0600" "$(stat -c %a "$dir/secret")" 600
like "... of 32 bytes in hex" "$(cat "$dir/secret")" '^[0-9a-f]{64}$'
is "everybody may connect to the socket" "$(stat -c %a "$dir/belayd.sock")" 666
is "nobody else reads the database" "$(stat -c %a "$dir/belayd.db")" 600
like "the pid file names it" "$(cat "$dir/belayd.pid")" "\"pid\": $belayd_pid"
port=$(cat "$dir/belayd.port")
like "the port file has the agent port" "$port" '^[0-9]+$'
refused "a second belayd on the folder is refused" "another belayd runs on $dir .*stop that one first" --dir "$dir"
ok "... and does not disturb the first" answers
refused "a port that is taken is named" "cannot listen at 127.0.0.1:$port" --dir "$dir/other" --listen "127.0.0.1:$port"

stop_belayd KILL
ok "SIGKILL leaves socket and pid file" test -e "$dir/belayd.sock" -a -e "$dir/belayd.pid"
start_belayd
ok "which the next start replaces" answers
is "the agents' port stays the same" "$(cat "$dir/belayd.port")" "$port"
rest POST /v1/jobs '{"spec":"name: a\nrun: {command: [sleep, \"5\"], ranks: 2}\n","cwd":"/tmp"}' >/dev/null
idle=$(sockets)
rest GET '/v1/jobs/1?rev=1&wait=30' >"$dir/poll.out" &
poll=$!
until_true 5 sockets_at_least $((idle + 1))
stop_belayd TERM
is "SIGTERM ends it with 0" "$stopped" 0
wait $poll
like "who waits is told" "$(cat "$dir/poll.out")" '^(503 \{"error":"belayd is shutting down|200)'
ok "a clean end removes socket and pid file" test ! -e "$dir/belayd.sock" -a ! -e "$dir/belayd.pid" || diag "$(ls "$dir")"
start_belayd; stop_belayd INT
is "SIGINT too" "$stopped" 0

chmod 644 "$dir/secret"
refused "a secret that others can read is refused" "secret has mode 0644.*chmod 600" --dir "$dir"
chmod 600 "$dir/secret"; cp "$dir/secret" "$dir/secret.kept"; echo short >"$dir/secret"
refused "a secret that is none is refused" "does not hold a secret of 64 hex digits" --dir "$dir"
mv "$dir/secret.kept" "$dir/secret"

refused "an unknown flag is named" 'does not understand --frobnicate' --dir "$dir" --frobnicate
refused "an argument is refused" 'takes no argument "extra"' --dir "$dir" extra
refused "a listen address without port is refused" '--listen: listen is "127.0.0.1"; it must be HOST:PORT' --dir "$dir" --listen 127.0.0.1
printf '# settings\nheartbeat_ms = soon\n' >"$dir/belay.conf"
refused "a bad setting is named with its line" 'belay.conf:2: heartbeat_ms is "soon"; it must be a whole number' --dir "$dir"
printf 'heartbeat_ms\n' >"$dir/belay.conf"
refused "a line that is no setting is named" 'belay.conf:1: "heartbeat_ms" is not "key = value"' --dir "$dir"
printf 'heartbeat_ms = 250 # quick\nslots = 7\n' >"$dir/belay.conf"
BELAY_LISTEN=127.0.0.1:x refused "a bad variable is named" 'BELAY_LISTEN: listen is "127.0.0.1:x"' --dir "$dir"
start_belayd
like "another program's setting is left alone, said so" "$(cat "$dir/belayd.log")" 'belay.conf:2: belayd has no setting "slots" and leaves it alone'
mkfifo "$dir/never"; exec 4<>"$dir/never" # an input that never ends
"$BELAY_TEST_PROGRAMS/agent_probe" "$(cat "$dir/belayd.port")" "$(cat "$dir/secret")" n0 <&4 >"$dir/probe.out" 2>&1 &
probe=$!
ok "a setting from belay.conf counts" until_true 5 grep -qs '"heartbeat_ms":250' "$dir/probe.out" || diag "$(cat "$dir/probe.out")"
stop_belayd TERM; wait $probe
rm "$dir/belay.conf"

cp "$dir/belayd.db" "$dir/kept.db"
sqlite3 "$dir/belayd.db" 'PRAGMA user_version = 1000'
refused "a newer database is refused" 'written by a newer belayd \(schema 1000, this one knows [0-9]+\): install that version' --dir "$dir"
head -c 20000 /dev/urandom >"$dir/belayd.db"
refused "what is no database is refused" 'belayd.db: file is not a database' --dir "$dir"
cp "$dir/kept.db" "$dir/belayd.db"
start_belayd
like "the state is found again" "$(rest GET /v1/jobs/1)" '^200 \{"id":1,"name":"a"'
stop_belayd TERM
refused "a folder that cannot be made is named" 'cannot make the folder /dev/null' --dir /dev/null/x
like "--version" "$(belayd --version)" '^belayd [0-9.]+$'
like "--help" "$(belayd --help)" '--listen HOST:PORT'

# The disk fills up under a running belayd: requests get a sentence, and it ends rather than go on with memory ahead of the disk.
start_belayd
if prlimit --pid "$belayd_pid" --fsize=1:1 2>/dev/null; then
  like "a failed write is answered with 503 and the sentence" "$(rest POST /v1/jobs '{"spec":"name: b\nrun: {command: [sleep, \"5\"], ranks: 2}\n","cwd":"/tmp"}')" '^503 .*cannot write .*belayd.db'
  wait "$belayd_pid"; is "... and belayd ends" $? 1
  belayd_pid=
  start_belayd
  like "... and what was not kept is not there" "$(rest GET /v1/jobs/2)" '^404 '
  stop_belayd TERM
fi
plan "$TAP_COUNT"
