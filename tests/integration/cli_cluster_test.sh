#!/usr/bin/env bash
# belay up and down: a cluster that is started, mended, grown and ended, with no process left.
. "$(dirname "$0")/../lib.sh"
plan 39
cd "$SCRATCH" || exit 1

node_field() { belay nodes -o json | json ".$1.$2"; }
pid_of() { json .pid <"$1"; }
processes_of() { # processes that have this cluster's folder in their command line
  local p
  for p in /proc/[0-9]*; do { tr '\0' '\n' <"$p/cmdline" | grep -qF -- "$BELAY_DIR" && echo "${p#/proc/}"; } 2>/dev/null; done
}

like "up says what it has made" "$(belay up --nodes 3 --slots 2 --racks 2)" "is up: 3 nodes with 2 slots each in 2 racks"
is "the folder is private" "$(stat -c %a "$BELAY_DIR")" 700
is "so is the secret" "$(stat -c %a "$BELAY_DIR/secret")" 600
is "three nodes" "$(belay nodes -o json | json .length)" 3
is "dealt to racks in blocks" "$(node_field 0 rack) $(node_field 1 rack) $(node_field 2 rack)" "rack0 rack0 rack1"
is "with two free slots each" "$(node_field 0 slots) $(node_field 2 free)" "2 2"
is "all up" "$(node_field 0 state) $(node_field 1 state) $(node_field 2 state)" "up up up"
is "the keys that scripts rely on" \
  "$(belay nodes -o json | perl -MJSON::PP -e 'local $/; my $n = decode_json(<STDIN>)->[0]; print join " ", grep { exists $n->{$_} } qw(name state reason since slots free rack pod jobs)')" \
  "name state reason since slots free rack pod jobs"
like "up again has nothing to do" "$(belay up)" "is up already"

# mended
agent=$(pid_of "$BELAY_DIR/agents/node1/agent.pid")
kill9 "$agent"
like "up starts an agent that died" "$(belay up)" "Started the agent of node1"
ok "it is another process" test "$(pid_of "$BELAY_DIR/agents/node1/agent.pid")" != "$agent"
port=$(cat "$BELAY_DIR/belayd.port") daemon=$(pid_of "$BELAY_DIR/belayd.pid") agent=$(pid_of "$BELAY_DIR/agents/node0/agent.pid")
kill9 "$daemon"
like "up starts belayd when it died" "$(belay up 2>&1)" "Started belayd"
is "on the port that agents know" "$(cat "$BELAY_DIR/belayd.port")" "$port"
is "the agents go on" "$(pid_of "$BELAY_DIR/agents/node0/agent.pid")" "$agent"

# grown, not changed
belay up --nodes 2 >out 2>err
is "fewer nodes are refused" "$? $(grep -c 'cannot shrink' err)" "5 1"
belay up --slots 3 >out 2>err
is "other slots are refused" "$? $(grep -c '2 slots a node' err)" "5 1"
like "more nodes join" "$(belay up --nodes 4 --racks 3)" "4 nodes"
is "in the new rack" "$(node_field 3 name) $(node_field 3 rack) $(node_field 3 state)" "node3 rack2 up"

# two at once
rm -f both.*
belay up >both.1 2>&1 & first=$!
belay up >both.2 2>&1; second=$?
wait "$first"
is "two ups at once both succeed" "$? $second" "0 0"

# down, with a job running and with an agent that was killed under it
cat >wait.yaml <<'Y'
name: wait
run: {command: [/bin/bash, -c, 'trap "" TERM; while :; do sleep 1; done'], ranks: 4}
resources: {device: cpu}
limits: {grace: 1s}
Y
id=$(belay submit wait.yaml)
ok "a job that ignores SIGTERM runs" until_true 20 job_is "$id" running
token=$(json .token <"$BELAY_DIR/agents/$(job "$id" .placement.0.node)/attempts/$id.1/order.json")
ok "on four ranks" test "$(processes_with "BELAY_TOKEN=$token" | wc -l)" -ge 4
kill9 "$(pid_of "$BELAY_DIR/agents/$(job "$id" .placement.0.node)/agent.pid")"
out=$(belay down 2>&1)
is "down ends" "$?" 0
like "and says so" "$out" "is down"
like "and that the job goes on later" "$out" "1 unfinished job will go on at the next .belay up"
is "no rank is left" "$(processes_with "BELAY_TOKEN=$token")" ""
is "no process of the cluster is left" "$(processes_of)" ""
like "down again has nothing to do" "$(belay down)" "No cluster runs"

# up again: everything is known
ok "up again" quiet belay up
ok "the job goes on by itself" until_true 30 job_is "$id" running
ok "in a new attempt" test "$(job "$id" .attempt)" -gt 1
ok "cancel" quiet belay cancel "$id"

# taking the cluster down is nobody's failure: not even a job that may never restart is charged
sed 's/^name: wait/name: once\nrestart: {max: 0}/' wait.yaml >once.yaml
ok "the cancelled job ends" until_true 20 job_is "$id" cancelled
id=$(belay submit once.yaml)
ok "a job that may not restart runs" until_true 20 job_is "$id" running
quiet belay down
quiet belay up
ok "it goes on after down and up" until_true 30 job_is "$id" running
is "and was charged nothing" "$(job "$id" .restarts)" 0
quiet belay cancel "$id"

# a path that fits no socket address
long=$SCRATCH/$(printf 'a%.0s' {1..120})
like "a folder with a long path" "$(belay up --dir "$long" --slots 1 2>&1 && belay down --dir "$long" 2>&1)" "is up: 1 node with 1 slot each"
belay down >/dev/null
is "no process is left at the end" "$(processes_of)" ""

# what is said of a failed start is of this start
chmod 644 "$BELAY_DIR/secret"
said=$(belay up 2>&1)
like "a secret that others can read stops up" "$said" "secret has mode 0644.*chmod 600"
is "and no word of earlier runs" "$(grep -c 'shutting down' <<<"$said")" 0
chmod 600 "$BELAY_DIR/secret"
