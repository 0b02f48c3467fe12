#!/usr/bin/env bash
# How long a restart needs to find, check and load the state of GPT-2 124M (1.4 GiB, two ranks on two nodes of this host): from the memory of its own node, from the buddy of a node that was
# killed, and from storage. What the trainer itself says ("resuming from step …: N MiB in T s"), median of ROUNDS kills each, in ms per GB.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PWD/build/bin:$PATH
rounds=${ROUNDS:-3} model=${MODEL:-gpt2-124m}
scratch=$(mktemp -d "${BENCH_DIR:-/var/tmp}/belay-bench-XXXXXX")
export BELAY_DIR=$scratch/cluster
trap 'belay down >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT
cd "$scratch"
head -c 4000000 "$(command -v belay-train)" >corpus.txt
json() { perl -MJSON::PP -e 'local $/; my $v = decode_json(<STDIN>); for (grep length, split /\./, $ARGV[0]) { $v = ref $v eq "ARRAY" ? $v->[$_] : $v->{$_} } print $v' "$1"; }
median() { sort -g | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }

# job NAME CHECKPOINT-FIELDS: its id
job() {
  cat >"$1.yaml" <<END
name: $1
train:
  model: {preset: $model, context: 64}
  data: {path: corpus.txt, tokenizer: bytes}
  steps: 100000
  batch: {global: 2, micro: 1}
  optimizer: {lr: 1e-4}
parallel: {dp: 2, zero: 1}
resources: {device: cpu, cpus: 1}
checkpoint: {directory: $1, keep: 1, $2}
restart: {max: 1000, backoff: 100ms}
END
  belay submit "$1.yaml" 2>/dev/null
}
attempt() { belay status "$1" -o json | json .attempt; }
# held ID KEY: the step that a restart would find
held() { belay status "$1" -o json | perl -MJSON::PP -e 'local $/; my $v = decode_json(<STDIN>); my $c = $v->{$ARGV[0]}; print ref $c ? $c->{step} // 0 : 0' "$2"; }
held_after() { [ "$(held "$1" "$3")" -gt "$2" ]; }
wait_for() { for _ in $(seq 1200); do if "$@"; then return; fi; sleep 0.5; done; echo "gave up waiting for: $*" >&2; exit 1; }
resumed() { belay logs "$1" --attempt "$2" 2>/dev/null | grep -q '^resuming from step'; }
took() { belay logs "$1" --attempt "$2" | sed -n 's/^resuming from step.*: \([0-9.]*\) MiB in \([0-9.]*\) s.*/\1 \2/p' | awk '{ print 1e3 * $2 / ($1 * 1048576 / 1e9) }'; }
rank_pid() { belay describe "$1" -o json | json ".attempts.$(($(attempt "$1") - 1)).ranks.$2.pid"; }
kill_rank() { kill -KILL "$(rank_pid "$1" 1)"; }
kill_node() { # that of rank 1: agent, shim and rank
  local node
  node=$(belay status "$1" -o json | json .placement.1.node)
  kill -KILL "$(json .pid <"$BELAY_DIR/agents/$node/agent.pid")" "$(json .shim.pid <"$BELAY_DIR/agents/$node/attempts/$1.$(attempt "$1")/state.json")" "$(rank_pid "$1" 1)"
}

# measure NAME FIELDS CHECKPOINT-KEY KILL
measure() {
  local id last seen=0
  id=$(job "$1" "$2")
  for ((r = 1; r <= rounds; r++)); do
    last=$(attempt "$id")
    wait_for held_after "$id" "$seen" "$3" # one that this attempt has made
    "$4" "$id"
    wait_for resumed "$id" $((last + 1))
    took "$id" $((last + 1)) >>"$1.took"
    seen=$(held "$id" "$3")
    belay up --nodes 4 --slots 1 --racks 2 >/dev/null
  done
  belay cancel "$id" >/dev/null
  printf '%-44s %8.0f ms per GB\n' "$5" "$(median <"$1.took")"
}

belay up --nodes 4 --slots 1 --racks 2 >/dev/null
measure memory 'every: 1000000, memory: {every: 1}' checkpoint_memory kill_rank 'from memory, a rank was killed'
measure buddy 'every: 1000000, memory: {every: 1}' checkpoint_memory kill_node 'from its buddy, a node was killed'
measure storage 'every: 2' checkpoint kill_rank 'from storage (in the page cache)'
