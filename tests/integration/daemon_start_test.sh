#!/usr/bin/env bash
# Starting and stopping belayd: one per folder, the secret's mode, settings, what a kill leaves behind, older and newer states.
. "$(dirname "$0")/daemon_lib.sh"
# refused NAME PATTERN ARGS...: belayd with these arguments ends with a sentence.
refused() {
  local name=$1 pattern=$2 out rc; shift 2
  out=$(timeout 20 "$bin/belayd" "$@" 2>&1); rc=$?
  [ $rc -eq 1 ] || [ $rc -eq 2 ] || { not_ok "$name" "exit $rc" "$out"; return; }
  like "$pattern" "$out" "$name"
}
start_belayd
is 600 "$(stat -c %a "$dir/secret")" "a new secret is mode 0600"
like '^[0-9a-f]{64}$' "$(cat "$dir/secret")" "... of 32 bytes in hex"
is 666 "$(stat -c %a "$dir/belayd.sock")" "everybody may connect to the socket"
is 600 "$(stat -c %a "$dir/belayd.db")" "nobody else reads the database"
like "\"pid\": $belayd_pid" "$(cat "$dir/belayd.pid")" "the pid file names it"
port=$(cat "$dir/belayd.port")
like '^[0-9]+$' "$port" "the port file has the agent port"
refused "a second belayd on the folder is refused" "another belayd runs on $dir .*stop that one first" --dir "$dir"
answers && ok "... and does not disturb the first" || not_ok "... and does not disturb the first"
refused "a port that is taken is named" "cannot listen at 127.0.0.1:$port" --dir "$dir/other" --listen "127.0.0.1:$port"

stop_belayd KILL
[ -e "$dir/belayd.sock" ] && [ -e "$dir/belayd.pid" ] && ok "SIGKILL leaves socket and pid file" || not_ok "SIGKILL leaves socket and pid file"
start_belayd
ok "which the next start replaces"
is "$port" "$(cat "$dir/belayd.port")" "the agents' port stays the same"
rest POST /v1/jobs '{"spec":"name: a\nrun: {command: [sleep, \"5\"], ranks: 2}\n","cwd":"/tmp"}' >/dev/null
rest GET '/v1/jobs/1?rev=1&wait=30' >"$dir/poll.out" &
poll=$!
until_true 5 eval '[ "$(find /proc/$belayd_pid/fd -lname "socket:*" | wc -l)" -ge 4 ]'
stop_belayd TERM
is 0 "$stopped" "SIGTERM ends it with 0"
wait $poll
like '^(503 \{"error":"belayd is shutting down|200)' "$(cat "$dir/poll.out")" "who waits is told"
[ ! -e "$dir/belayd.sock" ] && [ ! -e "$dir/belayd.pid" ] && ok "a clean end removes socket and pid file" || not_ok "a clean end removes socket and pid file" "$(ls "$dir")"
start_belayd; stop_belayd INT
is 0 "$stopped" "SIGINT too"

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
like 'belay.conf:2: belayd has no setting "slots" and leaves it alone' "$(cat "$dir/belayd.log")" "another program's setting is left alone, said so"
mkfifo "$dir/never"; exec 4<>"$dir/never" # an input that never ends
"$programs/agent_probe" "$(cat "$dir/belayd.port")" "$(cat "$dir/secret")" n0 <&4 >"$dir/probe.out" 2>&1 &
probe=$!
until_true 5 grep -q '"heartbeat_ms":250' "$dir/probe.out" && ok "a setting from belay.conf counts" || not_ok "a setting from belay.conf counts" "$(cat "$dir/probe.out")"
stop_belayd TERM; wait $probe
rm "$dir/belay.conf"

cp "$dir/belayd.db" "$dir/kept.db"
sqlite3 "$dir/belayd.db" 'PRAGMA user_version = 1000'
refused "a newer database is refused" 'written by a newer belayd \(schema 1000, this one knows [0-9]+\): install that version' --dir "$dir"
head -c 20000 /dev/urandom >"$dir/belayd.db"
refused "what is no database is refused" 'belayd.db: file is not a database' --dir "$dir"
cp "$dir/kept.db" "$dir/belayd.db"
start_belayd
like '^200 \{"id":1,"name":"a"' "$(rest GET /v1/jobs/1)" "the state is found again"
stop_belayd TERM
refused "a folder that cannot be made is named" 'cannot make the folder /dev/null' --dir /dev/null/x
like '^belayd [0-9.]+$' "$("$bin/belayd" --version)" "--version"
like '--listen HOST:PORT' "$("$bin/belayd" --help)" "--help"

# The disk fills up under a running belayd: requests get a sentence, and it ends rather than go on with memory ahead of the disk.
start_belayd
if prlimit --pid "$belayd_pid" --fsize=1:1 2>/dev/null; then
  like '^503 .*cannot write .*belayd.db' "$(rest POST /v1/jobs '{"spec":"name: b\nrun: {command: [sleep, \"5\"], ranks: 2}\n","cwd":"/tmp"}')" "a failed write is answered with 503 and the sentence"
  wait "$belayd_pid"; is 1 $? "... and belayd ends"
  belayd_pid=
  start_belayd
  like '^404 ' "$(rest GET /v1/jobs/2)" "... and what was not kept is not there"
  stop_belayd TERM
fi
plan
