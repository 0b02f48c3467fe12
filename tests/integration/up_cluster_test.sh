#!/usr/bin/env bash
# belay up --cluster: a topology of a cluster file played on this host, grown, mended, and what cannot be.
. "$(dirname "$0")/../lib.sh"
cd "$SCRATCH" || exit 1
cat >lab.yaml <<'Y'
name: lab
devices: {type: cpu, per_node: 2}
pods:
  - {name: pod1, racks: "rack[1-2]", nodes: "n[9-12]", nvlink: rack}
  - {name: pod2, racks: rack1, nodes: big, devices: {type: h100, per_node: 3, cores: 128, memory: 2TiB}}
Y
field() { belay nodes -o json | json ".$1.$2"; }

belay up --cluster lab.yaml --slots 2 >out 2>err
is "slots are the file's" "$? $(grep -c 'leave --slots and --racks away' err)" "2 1"
belay up --cluster lab.yaml --nodes 6 >out 2>err
is "more nodes than the file has are refused" "$? $(grep -c 'lists 5 nodes, not 6' err)" "2 1"
sed 's/racks:/rack:/' lab.yaml >wrong.yaml
belay up --cluster wrong.yaml >out 2>err
is "a wrong file is refused with its mistakes" "$? $(grep -c 'wrong.yaml:4:18: unknown field "rack" in pods; did you mean "racks"?' err)" "2 1"
ok "and nothing was made" test ! -e "$BELAY_DIR/cluster.json" -a ! -e "$BELAY_DIR/belayd.pid"

like "up plays the first nodes" "$(belay up --cluster lab.yaml --nodes 3)" "is up: 3 nodes in 2 racks of $PWD/lab.yaml\\.$"
is "by their names" "$(field 0 name) $(field 1 name) $(field 2 name)" "n9 n10 n11"
is "in their places" "$(field 0 pod) $(field 1 rack) $(field 2 rack) $(field 2 nvlink)" "pod1 rack1 rack2 rack2"
is "with their slots" "$(field 0 slots) $(field 2 slots)" "2 2"
is "just as the file says" "$(field 0 reason)$(field 1 reason)$(field 2 reason)" ""
cd / || exit 1
like "up again, from anywhere, knows the file" "$(belay up)" "is up already: 3 nodes in 2 racks of $SCRATCH/lab.yaml"
like "it can grow to all of them" "$(belay up --nodes 5)" "is up: 5 nodes in 3 racks"
is "the last one is larger" "$(field 4 name) $(field 4 slots) $(field 4 pod)" "n12 2 pod1"
is "nodes are listed by name" "$(field 0 name) $(field 0 slots)" "big 3"
kill9 "$(json .pid <"$BELAY_DIR/belayd.pid")"
like "a belayd that died is started with the file" "$(belay up)" "Started belayd"
is "as before" "$(field 0 pod) $(field 0 reason)" "pod2 "
cp "$SCRATCH/lab.yaml" "$SCRATCH/other.yaml"
belay up --cluster "$SCRATCH/other.yaml" >"$SCRATCH/out" 2>"$SCRATCH/err"
is "another file is another cluster" "$? $(grep -c 'was not made from .*other.yaml but from .*lab.yaml' "$SCRATCH/err")" "5 1"

# many nodes in one word
belay drain "n[9-12" --reason x >"$SCRATCH/out" 2>"$SCRATCH/err"
is "a host list that is none is refused before anything is drained" "$? $(grep -c 'bracket that is not closed' "$SCRATCH/err") $(belay nodes | grep -c drained)" "2 1 0"
ok "drain takes a host list" quiet belay drain "n[9-10,12],big" --reason switch --wait
is "of four nodes" "$(belay nodes | grep -c drained)" 4
ok "so does undrain" quiet belay undrain "n[9-10,12]"
is "all of them but one" "$(belay nodes | grep drained | cut -d' ' -f1)" "big"
belay undrain "x[1-7]" big >"$SCRATCH/out" 2>"$SCRATCH/err"
is "where some are not there, nothing is done" "$? $(belay nodes | grep -c drained)" "4 1"
is "and one sentence names some of them" "$(cat "$SCRATCH/err")" \
  "belay: there is no node x1, x2, x3, x4, x5 and 2 more, so nothing was undrained; \`belay nodes\` lists them"
belay drain n9 n99 --reason x >"$SCRATCH/out" 2>"$SCRATCH/err"
is "drain is the same" "$? $(grep -c 'no node n99, so nothing was drained' "$SCRATCH/err") $(belay nodes | grep -c drain)" "4 1 1"
ok "back again" quiet belay undrain big
ok "down ends it" quiet belay down
plan "$TAP_COUNT"
