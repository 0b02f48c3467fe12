#!/usr/bin/env bash
# belayd's REST API by a table: what a request gets, each error with its status and a sentence; and who may do what.
. "$(dirname "$0")/daemon_lib.sh"
start_belayd
spec='name: a\nrun: {command: [sleep, \"5\"], ranks: 2}\n'
job="{\"spec\":\"$spec\",\"cwd\":\"/tmp\",\"key\":\"k1\",\"file\":\"a.yaml\"}"
# METHOD PATH | BODY | PATTERN OF THE ANSWER
table() {
  while IFS='|' read -r what body want; do
    [ -z "$what" ] && continue
    read -r method path <<<"$what"
    got=$(timeout 20 "$BELAY_TEST_PROGRAMS/rest" "$dir" "$method" "$path" "$(printf '%s' "$body" | sed 's/^ *//; s/ *$//')" 2>&1 | head -c 2000)
    like "$method $path" "$got" "^$(sed 's/^ *//' <<<"$want")"
  done
}
table <<E
GET /v1/cluster|| 200 \{"version":"[0-9.]+","pid":$belayd_pid,"started":"20..-..-..T..:..:..\....Z","jobs":\{"pending":0.*\},"nodes":\{.*\},"dir":"$dir","topology":\{"name":null,.*\}\}\$
POST /v1/jobs| $job | 201 \{"id":1\}\$
POST /v1/jobs| $job | 201 \{"id":1\}\$
POST /v1/jobs| {"spec":"$spec","cwd":"/tmp","set":["priority=7"]} | 201 \{"id":2\}\$
GET /v1/jobs/2|| 200 .*"priority":7
POST /v1/jobs| {"spec":"nam: x\n","cwd":"/tmp","file":"dir/b.yaml"} | 400 \{"diagnostics":\[.*"dir/b.yaml:1:1: .*\],"error":"dir/b.yaml:1:1: .*"\}\$
POST /v1/jobs| {"spec":"$spec","cwd":"/tmp","set":["priority=x"]} | 400 .*--set priority=x
POST /v1/jobs| {"spec":"$spec","cwd":"relative"} | 400 \{"error":"\\\\"cwd\\\\" must be an absolute path
POST /v1/jobs| {"spec":"$spec"} | 400 .*cwd
POST /v1/jobs| {"cwd":"/tmp"} | 400 \{"error":"\\\\"spec\\\\" must be a string"\}\$
POST /v1/jobs| {"spec":5,"cwd":"/tmp"} | 400 .*spec
POST /v1/jobs| {"spec":"$spec","cwd":"/tmp","set":"x"} | 400 .*must be an array
POST /v1/jobs| {"spec":"$spec","cwd":"/tmp","set":[1]} | 400 .*must hold strings
POST /v1/jobs| {"spec":"$spec","cwd":"/tmp","key":""} | 400 .*key
POST /v1/jobs| [] | 400 \{"error":"the body must be a JSON object"\}\$
POST /v1/jobs| {"a":1,"a":2} | 400 .*not JSON.*duplicate
POST /v1/jobs| {"spec":"\ud800","cwd":"/tmp"} | 400 .*not JSON
POST /v1/jobs| {"spec":"a\u0000b","cwd":"/tmp"} | 400 .*not JSON
POST /v1/jobs| {oops | 400 \{"error":"the body is not JSON: line 1, column
POST /v1/jobs|| 400 .*spec
POST /v1/jobs| @3000000 | (413|-1)
GET /v1/jobs/1/why|| 200 \{"verdict":"capacity","sentence":"waits for nodes: none has joined the cluster yet","need":\{"ranks":2,
GET /v1/jobs/99/why|| 404 .*no job 99
POST /v1/plan| {"spec":"$spec"} | 200 \{"verdict":"capacity",
POST /v1/plan| {"spec":"nam: x\n"} | 400 \{"diagnostics":
POST /v1/plan| {"set":[]} | 400 .*spec
GET /v1/plan|| 405
GET /v1/jobs|| 200 \[\{"id":1,.*\},\{"id":2,.*\}\]\$
GET /v1/jobs?state=pending|| 200 \[\{"id":1,.*"id":2
GET /v1/jobs?state=running|| 200 \[\]\$
GET /v1/jobs?state=flying|| 400 \{"error":"\\\\"flying\\\\" is no state of a job"\}\$
GET /v1/jobs/99|| 404 \{"error":"there is no job 99
GET /v1/jobs/0|| 404
GET /v1/jobs/-1|| 404
GET /v1/jobs/1x|| 404
GET /v1/jobs/1%00/why|| 400 .*the address is not understood
GET /v1/jobs/99999999999999999999999|| 404
GET /v1/jobs/1?rev=x|| 400 .*rev is ..x..; it must be a whole number
GET /v1/jobs/1?rev=1&wait=-5|| 400 .*wait
GET /v1/jobs/1?rev=0&wait=30|| 200 \{"id":1
GET /v1/jobs/1?rev=1&wait=0|| 200 \{"id":1
GET /v1/jobs/1/attempts|| 200 \[\]\$
GET /v1/jobs/99/attempts|| 404
GET /v1/jobs/1/checkpoints|| 200 \[\]\$
GET /v1/jobs/1/logs|| 200 \{"offset":0,"next":0,"size":0,"data":"","live":true,"attempt":0\}\$
GET /v1/jobs/1/logs?rank=-1|| 400 .*rank
GET /v1/jobs/1/logs?attempt=3|| 404 .*job 1 has no attempt 3
GET /v1/jobs/1/logs?limit=99999999|| 200
GET /v1/events|| 200 \[\{"id":1,"time":"2.*Z","kind":"submitted","job":1,"attempt":null,"rank":null,"node":null,"text":"job 1
GET /v1/events?after=1&job=2|| 200 \[\{"id":2,.*"job":2
GET /v1/events?after=x|| 400 .*after
GET /v1/events?limit=0|| 400 .*limit
GET /v1/events?node=nowhere|| 200 \[\]\$
GET /v1/nodes|| 200 \[\]\$
GET /v1/nodes/node0|| 404 \{"error":"there is no node .*node0
POST /v1/nodes/node0/drain| {"reason":"x"} | 404
POST /v1/jobs/1/hold|| 200 \{"id":1,"state":"held"\}\$
POST /v1/jobs/1/hold|| (200|409)
POST /v1/jobs/1/release|| 200 \{"id":1,"state":"pending"\}\$
POST /v1/jobs/1/release|| 409 \{"error":"
POST /v1/jobs/99/cancel|| 404 \{"error":"there is no job 99
POST /v1/jobs/1/cancel|| 200 \{"id":1,"state":"cancelled"\}\$
POST /v1/jobs/1/cancel|| (200|409)
POST /v1/jobs/1/hold|| 409
POST /v1/jobs/1/explode|| 404
DELETE /v1/jobs/1|| 405 \{"error":"this method is not for /v1/jobs/1"\}\$
PUT /v1/jobs|| 405
GET /v1/jobs/1/cancel|| 405
POST /v1/cluster|| 405
GET /|| 404
GET /v1/jobs/|| 404
GET /v2/jobs|| 404 \{"error":"there is no /v2/jobs here
GET /v1/jobs/1%2fcancel|| (404|405)
GET /v1/nodes/%00|| (400|404)
E
like "an address of 20 kB is refused" "$(timeout 20 "$BELAY_TEST_PROGRAMS/rest" "$dir" GET "/$(head -c 20000 /dev/zero | tr '\0' a)" 2>&1)" '^-1|^400'

# --- the keys that scripts read
keys() { grep -oE '"[a-z_]+":' | tr -d '":' | sort -u | xargs; }
want="id name user state reason attempt restarts step steps loss tokens_per_second mfu checkpoint checkpoint_memory checkpoint_upload checkpoint_staged checkpoint_failing checkpoint_request checkpoint_interval ettr submitted started ended placement spares ranks nodes phase status rev up_s first_failure exit_code lost restart_max cwd queue priority kind checkpoint_directory detect_ms stop_ms place_ms load_ms replay_ms"
is "the keys of a job" "$(rest GET /v1/jobs/2 | keys)" "$(xargs -n1 <<<"$want" | sort -u | xargs)"

# --- schema/openapi.yaml says the same keys
api=$(dirname "$0")/../../schema/openapi.yaml
api_keys() { # api_keys SCHEMA: its own properties
  awk -v want="    $1:" '$0 == want { on = 1; next } on && /^    [A-Za-z]/ { exit } on && /^        [a-z_]+:/ { sub(/:.*/, ""); print $1 }' "$api" | sort | xargs
}
reply_keys() { # reply_keys PATH: the keys of the object there, or of the first of the array
  rest GET "$1" | sed 's/^200 //' |
    perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->utf8->decode(<STDIN>); $v = $v->[0] if ref $v eq "ARRAY"; print join(" ", sort keys %$v), "\n"'
}
while read -r path name; do
  is "openapi.yaml knows the keys of $path" "$(reply_keys "$path")" "$(api_keys "$name")"
done <<E
/v1/cluster Cluster
/v1/jobs/2 Job
/v1/events Event
/v1/jobs/1/logs Log
E
routes=$(sed -n 's,^  \(/v1/.*\):$,\1,p' "$api" | sed 's/{id}/2/; s/{name}/nowhere/')
is "belayd serves every path of openapi.yaml" "$(for path in $routes; do rest PUT "$path"; done | grep -v '^405')" ""
ok "... of which there are some" test "$(wc -l <<<"$routes")" -ge 14

# --- long polls
idle=$(sockets)
rev=$(rest GET /v1/jobs/2 | grep -o '"rev":[0-9]*' | grep -o '[0-9]*')
rest GET "/v1/jobs/2?rev=$rev&wait=20" >"$dir/poll" & poll=$!
last=$(rest GET /v1/events | grep -o '"id":[0-9]*,"time"' | tail -1 | grep -o '[0-9]*')
rest GET "/v1/events?after=$last&job=2&wait=20" >"$dir/events" & events=$!
start=$(date +%s)
until_true 5 sockets_at_least $((idle + 2))
rest POST /v1/jobs/2/hold >/dev/null
wait $poll; wait $events
ok "long polls are woken" test $(($(date +%s) - start)) -lt 10
like "... with the new state of the job" "$(cat "$dir/poll")" '"state":"held"'
like "... with the new event" "$(cat "$dir/events")" '"kind":"[a-z_]*","job":2'
is "a wait that is over gives an empty answer" "$(rest GET "/v1/events?after=999999&wait=1")" "200 []"

# --- who may do what
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$SCRATCH" "$dir"; cp "$BELAY_TEST_PROGRAMS/rest" "$dir/rest"
  as() { setpriv --reuid "$1" --regid 65534 --clear-groups "$dir/rest" "$dir" "${@:2}" | head -c 400; }
  like "a user submits, with a key that another user has used" "$(as 65533 POST /v1/jobs "{\"spec\":\"$spec\",\"cwd\":\"/tmp\",\"key\":\"k1\"}")" '^201 \{"id":3\}'
  like "... under the own name" "$(rest GET /v1/jobs/3)" '"user":"65533"'
  like "somebody else's job cannot be cancelled" "$(as 65533 POST /v1/jobs/2/cancel)" '^403 \{"error":"job 2 belongs to root: only root or'
  like "... nor held" "$(as 65532 POST /v1/jobs/3/hold)" '^403 \{"error":"job 3 belongs to 65533: only 65533, root, or'
  like "but looked at" "$(as 65532 GET /v1/jobs/3)" '^200'
  like "what it prints is not for others" "$(as 65532 GET /v1/jobs/3/logs)" '^403 \{"error":"job 3 belongs to 65533: only 65533, root, or .* may read what it printed"'
  like "... but for its owner" "$(as 65533 GET /v1/jobs/3/logs)" '^200'
  like "... and root" "$(rest GET /v1/jobs/3/logs)" '^200'
  like "the owner may" "$(as 65533 POST /v1/jobs/3/hold)" '^200 \{"id":3,"state":"held"\}'
  like "root may" "$(rest POST /v1/jobs/3/cancel)" '^200 \{"id":3,"state":"cancelled"\}'
  mkfifo "$dir/n0.in"
  "$BELAY_TEST_PROGRAMS/agent_probe" "$(cat "$dir/belayd.port")" "$(cat "$dir/secret")" n0 <"$dir/n0.in" >"$dir/probe" 2>&1 &
  probe=$!
  exec 5>"$dir/n0.in"
  until_true 5 eval 'rest GET /v1/nodes/n0 | grep -q "^200"'
  like "a user cannot drain" "$(as 65533 POST /v1/nodes/n0/drain '{"reason":"x"}')" '^403 \{"error":"only root or the user that runs belayd'
  like "a drain needs a reason" "$(rest POST /v1/nodes/n0/drain '{}')" '^400 .*reason'
  like "a deadline in the past is refused" "$(rest POST /v1/nodes/n0/drain '{"reason":"x","deadline_s":-4}')" '^400 .*deadline_s'
  like "root drains" "$(rest POST /v1/nodes/n0/drain '{"reason":"fan is loud","deadline_s":60}')" '^200 \{"name":"n0","state":"drain(ing|ed)"'
  like "... for a reason that is shown" "$(rest GET /v1/nodes/n0)" 'fan is loud'
  want="name state reason since slots free rack pod nvlink jobs device address cores memory version heartbeat_age_ms gpus"
  is "openapi.yaml knows the keys of a node" "$(reply_keys /v1/nodes)" "$(api_keys Node)"
  is "the keys of a node" "$(rest GET /v1/nodes | keys)" "$(xargs -n1 <<<"$want" | sort -u | xargs)"
  like "a user cannot undrain" "$(as 65533 POST /v1/nodes/n0/undrain)" '^403'
  like "root undrains" "$(rest POST /v1/nodes/n0/undrain)" '^200 \{"name":"n0","state":"up"'
  exec 5>&-; wait $probe
fi
ok "belayd is still there" answers
stop_belayd TERM
is "and ends cleanly" "$stopped" 0
plan "$TAP_COUNT"
