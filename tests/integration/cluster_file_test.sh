#!/usr/bin/env bash
# belayd with a cluster file: nodes get their places from it, what differs is told and shown, and a file with mistakes stops the start.
. "$(dirname "$0")/daemon_lib.sh"
cat >"$dir/lab.yaml" <<'Y'
name: lab
devices: {type: h100, per_node: 8}
links:
  cluster: {bandwidth: 7.143GB/s}
pods:
  - {name: pod7, racks: "rack[1-2]", nodes: "gpu[01-04]", nvlink: rack}
Y
sed 's/per_node: 8/per_nod: 8/; s/gpu\[01-04\]/gpu[01-05]/' "$dir/lab.yaml" >"$dir/wrong.yaml"

out=$(timeout 20 belayd --dir "$dir" --cluster "$dir/wrong.yaml" 2>&1); rc=$?
is "a file with mistakes stops the start" $rc 2
like "... says where it was named" "$out" "^belayd: --cluster: the cluster file has 2 mistakes$"
like "... and each mistake with its place" "$out" "wrong.yaml:2:23: unknown field \"per_nod\" in devices; did you mean \"per_node\"\\?"
like "... all of them" "$out" "wrong.yaml:6:45: pods.nodes: 5 nodes cannot be dealt evenly over 2 racks"
out=$(BELAY_CLUSTER=/nowhere.yaml timeout 20 belayd --dir "$dir" 2>&1)
like "a file that is not there is named" "$out" "^/nowhere.yaml:1:1: cannot open /nowhere.yaml: No such file"

echo "cluster = lab.yaml" >"$dir/belay.conf"
start_belayd
like "the cluster shows its links" "$(rest GET /v1/cluster)" '"topology":\{"name":"lab","nodes":4,"slots":32,"links":\{.*"cluster":\{"bytes_per_s":7143000000\.0,'
node() { rest GET "/v1/nodes/$1" | sed 's/^[0-9]* //' | json ".$2"; }
event_texts() { rest GET "/v1/events?node=$1" | grep -o "\"kind\":\"$2\"[^}]*"; }
mkfifo "$dir/never"; exec 4<>"$dir/never" # an input that never ends
probe() {
  "$BELAY_TEST_PROGRAMS/agent_probe" "$(cat "$dir/belayd.port")" "$(cat "$dir/secret")" "$1" <&4 >"$dir/$1.out" 2>&1 &
  probes+=($!)
}
is_up() { [ "$(node "$1" state 2>/dev/null)" = up ]; }
probes=()
probe gpu03
ok "a node of the file joins" until_true 5 is_up gpu03
is "in the place that the file says, not its agent" "$(node gpu03 pod) $(node gpu03 rack) $(node gpu03 nvlink)" "pod7 rack2 rack2"
like "what differs is its reason" "$(node gpu03 reason)" "^differs from the cluster file: .*CPUs instead of GPUs, pod pod0 instead of pod7, rack rack0 instead of rack2$"
like "... and an event" "$(event_texts gpu03 node_mismatch)" "gpu03 differs from the cluster file: "
probe stranger
ok "a node that the file does not list joins" until_true 5 is_up stranger
is "where its agent says" "$(node stranger rack)" "rack0"
like "... and that is told" "$(event_texts stranger node_unlisted)" "stranger is not in the cluster file"
like "nodes -o wide has the domain and the reason" "$(belay nodes -o wide --dir "$dir")" "^gpu03 .* rack2 +pod7 +rack2 .*differs from the cluster file"
like "describe has them too" "$(belay describe gpu03 --dir "$dir")" "^nvlink +rack2$"

# a new belayd does not tell it again
stop_belayd KILL; start_belayd
probe gpu03
ok "the node comes back" until_true 5 is_up gpu03
is "and its difference is told only once" "$(event_texts gpu03 node_mismatch | wc -l)" 1
for p in "${probes[@]}"; do kill -KILL "$p" 2>/dev/null; wait "$p" 2>/dev/null; done
plan "$TAP_COUNT"
