#!/usr/bin/env bash
# 40 steps straight, and 40 steps with SIGKILL of a rank, a shim, an agent and belayd, each at a random step:
# the loss column is bitwise the same, and no step is missing or doubled.
. "$(dirname "$0")/../lib.sh"
plan 21
seed=${SEED:-$RANDOM}
RANDOM=$seed
diag "SEED=$seed"
cd "$SCRATCH" || exit 1
cat /usr/share/common-licenses/{GPL-3,Apache-2.0} >corpus.txt

spec() { # spec NAME
  cat <<Y
name: $1
train:
  model: {arch: llama, layers: 3, hidden: 96, heads: 4, kv_heads: 2, context: 96}
  data: {path: corpus.txt, tokenizer: bytes}
  steps: 40
  batch: {global: 8, micro: 2}
  optimizer: {lr: 3e-3, min_lr: 3e-4, warmup: 5}
  seed: 7
parallel: {dp: 2}
resources: {device: cpu, cpus: 1, memory: 256MiB}
checkpoint: {directory: ckpt-$1, every: 5, keep: 2}
restart: {max: 5, window: 24h, backoff: 100ms}
Y
}
start() { spec "$1" >"$1.yaml"; belay submit "$1.yaml"; }
# Jobs that are to lose an attempt wait in its last step, so that they cannot be through before the kill comes.
start_waiting() { { spec "$1"; echo 'env: {BELAY_FAULT: "hang@40:attempt=1"}'; } >"$1.yaml"; belay submit "$1.yaml"; }
losses() { cut -d, -f1,2 "ckpt-$1/metrics.csv"; }
random_step() { at=$((6 + RANDOM % 28)); } # not in a subshell, which would draw the same number each time
rank_field() { belay describe "$1" -o json | json ".attempts.$2.ranks.$3"; }
shim_pid() { # shim of the newest attempt of job $1 on node $2
  json .shim.pid <"$BELAY_DIR/agents/$2/attempts/$1.$(job "$1" .attempt)/state.json"
}
same_as_straight() { # JOB NAME ATTEMPTS
  until_true 90 job_ended "$1"
  is "$2: the job completes" "$(job "$1" .state)" completed
  is "$2: losses bitwise equal to the straight run, no step missing or doubled" "$(losses "$2" | md5sum)" "$(losses straight | md5sum)"
  is "$2: attempts" "$(job "$1" .attempt)" "$3"
}

listed() { belay checkpoints "$1" -o json | perl -MJSON::PP -e 'local $/; print "$_->{path}\n" for @{decode_json(<STDIN>)}'; }
same_checkpoints() { # JOB NAME
  is "$2: the checkpoints that are listed are those that are there" "$(listed "$1")" "$(ls -d "$SCRATCH/ckpt-$2"/step-*)"
}

ok "a cluster of 3 nodes with 1 slot each" quiet belay up --nodes 3 --slots 1 || exit 1
id=$(start straight)
until_true 90 job_ended "$id"
is "straight: the job completes" "$(job "$id" .state)" completed
is "straight: 40 rows, steps 1 to 40" "$(losses straight | tail -n +2 | cut -d, -f1 | tr '\n' ' ')" "$(seq 1 40 | tr '\n' ' ')"
same_checkpoints "$id" straight

id=$(start_waiting rank); random_step
until_true 60 job_step_at_least "$id" "$at"
ok "rank: killed one at step $at" kill9 "$(belay describe "$id" -o json | json .attempts.0.ranks.1.pid)"
same_as_straight "$id" rank 2
same_checkpoints "$id" rank

id=$(start_waiting shim); random_step
until_true 60 job_step_at_least "$id" "$at"
ok "shim: killed one at step $at" kill9 "$(shim_pid "$id" "$(job "$id" .placement.1.node)")"
same_as_straight "$id" shim 2

id=$(start agent); random_step
until_true 60 job_step_at_least "$id" "$at"
kill9 "$(json .pid <"$BELAY_DIR/agents/$(job "$id" .placement.0.node)/agent.pid")"
ok "agent: killed one at step $at, belay up starts it again" quiet belay up --nodes 3 --slots 1
same_as_straight "$id" agent 1

id=$(start belayd); random_step
until_true 60 job_step_at_least "$id" "$at"
kill9 "$(json .pid <"$BELAY_DIR/belayd.pid")"
belay up --nodes 3 --slots 1 >/dev/null
same_as_straight "$id" belayd 1

# All ranks stop for what rank 0 says; another may be seen to end first.
{ spec verdict; echo 'env: {BELAY_FAULT: "nan@8:rank=1"}'; } >verdict.yaml
sed -i 's/^  seed: 7/  seed: 7\n  guard: {action: stop}/; s/max: 5/max: 0/' verdict.yaml
like "the end of a training is explained by the lines of rank 0" "$(belay run verdict.yaml 2>&1)" '^\[0\] .*step 8: .*the job stops as train.guard.action says'
