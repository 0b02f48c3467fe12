#!/usr/bin/env bash
# A training whose copies are in memory only: a rank, a shim and a whole node are killed at a random step, and it goes on from memory, bitwise as if nothing had been.
# Storage has no checkpoint before the last step, so nothing can have come from there.
. "$(dirname "$0")/../lib.sh"
plan 24
seed=${SEED:-$RANDOM}
RANDOM=$seed
diag "SEED=$seed"
cd "$SCRATCH" || exit 1
cat /usr/share/common-licenses/{GPL-3,Apache-2.0} >corpus.txt

spec() { # spec NAME MESH
  cat <<Y
name: $1
train:
  model: {arch: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, context: 64}
  data: {path: corpus.txt, tokenizer: bytes}
  steps: 40
  batch: {global: 8, micro: 2}
  optimizer: {lr: 3e-3, min_lr: 3e-4, warmup: 5}
  seed: 7
parallel: $2
resources: {device: cpu, cpus: 1, memory: 256MiB}
placement: {tp: {within: cluster}}
checkpoint: {directory: ckpt-$1, every: 1000, memory: {every: 1}}
restart: {max: 5, window: 24h, backoff: 100ms}
Y
}
# Jobs that are to lose an attempt wait in its last step, so that they cannot be through before the kill comes.
start_waiting() { { spec "$@"; echo 'env: {BELAY_FAULT: "hang@40:attempt=1"}'; } >"$1.yaml"; belay submit "$1.yaml"; }
losses() { cut -d, -f1,2 "ckpt-$1/metrics.csv"; }
random_step() { at=$((6 + RANDOM % 28)); } # not in a subshell, which would draw the same number each time
node_of() { job "$1" ".placement.$2.node"; }
shim_pid() { json .shim.pid <"$BELAY_DIR/agents/$2/attempts/$1.$(job "$1" .attempt)/state.json"; } # JOB NODE
rank_pid() { belay describe "$1" -o json | json ".attempts.0.ranks.$2.pid"; }
resumed() { belay logs "$1" --attempt 2 | grep -o 'resuming from step [0-9]*, held in memory.*'; }
kill_all() { for pid in "$@"; do kill9 "$pid" || return 1; done; }
from_memory() { # JOB NAME STRAIGHT
  until_true 90 job_ended "$1"
  is "$2: the job completes in its second attempt" "$(job "$1" .state) $(job "$1" .attempt)" "completed 2"
  is "$2: losses bitwise equal to the straight run" "$(losses "$2" | md5sum)" "$(losses "$3" | md5sum)"
  like "$2: from memory, nothing from storage" "$(resumed "$1")" ' held in memory by attempt 1 on [0-9]* rank.s.: [0-9.]+ MiB in [0-9.]+ s; .* 0 bytes from storage$'
  local step
  step=$(resumed "$1" | grep -o '[0-9]*' | head -1)
  ok "$2: no more than the steps under way were lost (killed at $at or later, on from ${step:-?})" test "${step:-0}" -ge $((at - 2))
}

ok "a cluster of 6 nodes in 2 racks" quiet belay up --nodes 6 --slots 1 --racks 2 || exit 1
spec straight "{dp: 2, zero: 1}" >straight.yaml
id=$(belay submit straight.yaml)
until_true 90 job_ended "$id"
is "straight: the job completes" "$(job "$id" .state)" completed

id=$(start_waiting rank "{dp: 2, zero: 1}"); random_step
until_true 60 job_step_at_least "$id" "$at"
ok "rank: killed one at step $at" kill9 "$(rank_pid "$id" 1)"
from_memory "$id" rank straight

id=$(start_waiting node "{dp: 2, zero: 1}"); random_step
until_true 60 job_step_at_least "$id" "$at"
node=$(node_of "$id" 0)
pids="$(json .pid <"$BELAY_DIR/agents/$node/agent.pid") $(shim_pid "$id" "$node") $(rank_pid "$id" 0)"
ok "node: killed the agent, the shim and the rank of rank 0's node at step $at" kill_all $pids
from_memory "$id" node straight
belay up --nodes 6 --slots 1 --racks 2 >/dev/null

spec tp "{tp: 2, dp: 2, zero: 1}" >tp.yaml
id=$(belay submit tp.yaml)
until_true 90 job_ended "$id"
is "tp: the job completes" "$(job "$id" .state)" completed
id=$(start_waiting shim "{tp: 2, dp: 2, zero: 1}"); random_step
until_true 60 job_step_at_least "$id" "$at"
ok "shim: killed that of rank 2 at step $at; what it held is at its buddy" kill9 "$(shim_pid "$id" "$(node_of "$id" 2)")"
from_memory "$id" shim tp
# --- copies that are not what their hashes say
rot() { # flips a byte in the middle of every image that the shims of job $1 hold
  local fd size n=0
  for node in "$BELAY_DIR"/agents/*; do
    [ -e "$node/attempts/$1.1/state.json" ] || continue
    for fd in /proc/"$(json .shim.pid <"$node/attempts/$1.1/state.json")"/fd/*; do
      [[ $(readlink "$fd") == /memfd:belay-image* ]] || continue
      size=$(stat -Lc %s "$fd")
      dd if=/dev/urandom of="$fd" bs=1 count=8 seek=$((size / 2)) conv=notrunc status=none && n=$((n + 1))
    done
  done
  [ $n -ge 4 ] # two steps of two ranks, and what buddies have
}
spec rotten "{dp: 2, zero: 1}" | sed 's/every: 1000/every: 10/' >rotten.yaml
echo 'env: {BELAY_FAULT: "hang@40:attempt=1"}' >>rotten.yaml
id=$(belay submit rotten.yaml)
until_true 60 job_step_at_least "$id" 39
ok "rotten: all copies were damaged" rot "$id"
kill9 "$(rank_pid "$id" 1)"
until_true 90 job_ended "$id"
is "rotten: the job completes in its second attempt" "$(job "$id" .state) $(job "$id" .attempt)" "completed 2"
log=$(belay logs "$id" --attempt 2)
like "rotten: the copies are refused, and why" "$log" 'the copy of step 3[0-9] in memory is not used: .*(hash|damaged)'
like "rotten: it goes on from storage" "$log" 'resuming from step 30, written by attempt 1'
is "rotten: losses bitwise equal to the straight run" "$(losses rotten | md5sum)" "$(losses straight | md5sum)"

ok "nothing is held of jobs that have ended" until_true 20 test -z "$(find "$BELAY_DIR"/agents/*/attempts -mindepth 1 -maxdepth 1)"
