#!/usr/bin/env bash
# belayd's agent port: who knows the secret gets in, and nothing a stranger or a broken agent sends does harm.
. "$(dirname "$0")/daemon_lib.sh"
start_belayd
port=$(cat "$dir/belayd.port") secret=$(cat "$dir/secret")
node_state() { rest GET "/v1/nodes/$1" | grep -o '"state":"[a-z]*"' | cut -d'"' -f4; }
state_is() { [ "$(node_state "$1")" = "$2" ]; }
has() { grep -qsE -- "$1" "$2"; }
fds_are() { [ "$(sockets)" -le "$1" ]; }
# probe NAME [SECRET]: a probe in the background; write lines to $dir/NAME.in, read $dir/NAME.out.
declare -A probe_pid=()
probe() {
  mkfifo "$dir/$1.in"
  "$BELAY_TEST_PROGRAMS/agent_probe" "$port" "${2:-$secret}" "$1" <"$dir/$1.in" >"$dir/$1.out" 2>&1 &
  probe_pid[$1]=$!
}

mkfifo "$dir/never"; exec 4<>"$dir/never" # an input that never ends

# --- the right and the wrong secret
out=$("$BELAY_TEST_PROGRAMS/agent_probe" "$port" "not-the-secret" node0 <&4 2>&1); rc=$?
is "a wrong secret does not get in" $rc 1
like "... and is told what to do" "$out" '"t":"refused","reason":"the proof is wrong: give the agent the same secret file'
is "... and makes no node" "$(rest GET /v1/nodes)" "200 []"
for name in 'a/b' '..' '-x' '' "$(printf 'n%.0s' {1..64})"; do
  out=$("$BELAY_TEST_PROGRAMS/agent_probe" "$port" "$secret" "$name" <&4 2>&1)
  like "the node name '${name:0:12}' is refused" "$out" '"reason":"a node name has 1 to 63'
done

probe node0; exec 5>"$dir/node0.in"
until_true 5 has '"t":"desired"' "$dir/node0.out"
is "challenge, welcome, desired" "$(grep -o '"t":"[a-z]*"' "$dir/node0.out" | cut -d'"' -f4 | xargs)" "challenge welcome desired"
ok "the node is up" until_true 5 state_is node0 up || diag "$(rest GET /v1/nodes)"

# --- orders after the commit; a report is acknowledged; a log is relayed
rest POST /v1/jobs '{"spec":"name: a\nrun: {command: [sleep, \"5\"], ranks: 2}\n","cwd":"/tmp"}' >/dev/null
ok "a submitted job becomes an order" until_true 5 has '"phase":"prepare"' "$dir/node0.out" || diag "$(cat "$dir/node0.out")"
echo '{"t":"report","job":1,"attempt":1,"rev":1,"phase":"ready","reason":"","port":4001,"master_port":4002,"ranks":[]}' >&5
ok "a report is acknowledged" until_true 5 has '"t":"ack","job":1,"attempt":1,"rev":1' "$dir/node0.out" || diag "$(cat "$dir/node0.out")"
rest GET '/v1/jobs/1/logs?rank=0&offset=0' >"$dir/log.out" &
asking=$!
until_true 5 has '"t":"read_log"' "$dir/node0.out"
id=$(grep -o '"t":"read_log","id":[0-9]*' "$dir/node0.out" | grep -o '[0-9]*$')
echo '{"t":"log","id":'"$id"',"offset":0,"next":3,"size":3,"data":"YWJj"}' >&5
wait $asking
like "a log is relayed" "$(cat "$dir/log.out")" '^200 \{"offset":0,"next":3,"size":3,"data":"YWJj","live":true,"attempt":1\}'
echo '{"t":"a type of the future","x":1}' >&5
echo '{"t":"log","id":999999,"offset":0,"next":0,"size":0,"data":""}' >&5
echo '{"t":"report","job":77,"attempt":1,"rev":1,"phase":"gone","reason":"","port":0,"master_port":0,"ranks":[]}' >&5
until_true 5 has '"t":"ack","job":77' "$dir/node0.out"
ok "unknown types, late answers and reports of unknown jobs are no reason to part" state_is node0 up || diag "$(cat "$dir/belayd.log")"

# --- a broken agent loses its link; another one takes a node's place
echo 'this is not JSON' >&5
wait "${probe_pid[node0]}"; exec 5>&-
ok "garbage ends the link" eval '! state_is node0 up' || diag "$(rest GET /v1/nodes)"
probe node1; exec 6>"$dir/node1.in"; until_true 5 state_is node1 up
seen=$(rest GET '/v1/events?node=node1')
mkfifo "$dir/again.in"; "$BELAY_TEST_PROGRAMS/agent_probe" "$port" "$secret" node1 <"$dir/again.in" >"$dir/again.out" 2>&1 & again=$!
exec 7>"$dir/again.in"
wait "${probe_pid[node1]}"; exec 6>&-
until_true 5 has welcome "$dir/again.out"
ok "a second login replaces the first without a break" state_is node1 up || diag "$(rest GET /v1/nodes)"
is "... and is no event" "$(rest GET '/v1/events?node=node1')" "$seen"
exec 7>&-; wait $again
ok "a closed link is noticed" until_true 3 eval '! state_is node1 up' || diag "$(rest GET /v1/nodes)"

# --- strangers
base=$(sockets)
stranger() { timeout 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; cat >&3 2>/dev/null; cat <&3" 2>/dev/null; echo "end $?"; }
like "an HTTP client is sent away" "$(printf 'GET / HTTP/1.0\r\n\r\n' | stranger)" 'end 0'
like "a message before login is refused" "$(printf '{"t":"heartbeat"}\n' | stranger)" '"refused"'
like "another link version is refused" "$(printf '{"t":"hello","v":99,"node":"x","nonce":"","proof":""}\n' | stranger)" '"refused"'
like "random bytes are sent away" "$(head -c 300 /dev/urandom | stranger | tail -1)" 'end'
head -c 6000000 /dev/zero | tr '\0' 'x' | stranger >/dev/null; ok "a giant line is cut off" answers
deep=$(printf '[%.0s' {1..5000}); printf '{"t":"hello","inventory":%s\n' "$deep" | stranger >/dev/null; ok "deep nesting does no harm" answers
rss() { grep VmRSS "/proc/$belayd_pid/status" | grep -o '[0-9]*'; }
ok "memory stays bounded" test "$(rss)" -lt 200000 || diag "$(rss) KiB"

# 700 half-open logins, more than belayd keeps: a real agent still gets in, and they are gone after their 5 s.
bash -c 'for i in $(seq 700); do exec {fd}<>/dev/tcp/127.0.0.1/'"$port"'; done; read -r _ <&4' 2>/dev/null &
crowd=$!
ok "strangers crowd in" until_true 10 eval '[ "$(sockets)" -gt 400 ]' || diag "$(sockets)"
probe node2; exec 8>"$dir/node2.in"
ok "a real agent gets in beside 700 half-open logins" until_true 3 state_is node2 up || diag "$(cat "$dir/node2.out")"
ok "half-open logins are closed in time" until_true 12 fds_are $((base + 5)) || diag "$(sockets) sockets, $base before"
kill $crowd 2>/dev/null; wait $crowd 2>/dev/null
exec 8>&-
stop_belayd TERM
is "belayd ends cleanly after all that" "$stopped" 0
ok "refused logins do not flood the log" test "$(wc -l <"$dir/belayd.log")" -lt 60 || diag "$(wc -l <"$dir/belayd.log") lines"
plan "$TAP_COUNT"
