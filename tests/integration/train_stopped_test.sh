#!/usr/bin/env bash
# A SIGTERM that was nobody's order does not complete a job: it saves, and goes on with another attempt that is not charged.
. "$(dirname "$0")/../lib.sh"
plan 7
cd "$SCRATCH" || exit 1
cat /usr/share/common-licenses/GPL-3 >corpus.txt
cat >job.yaml <<END
name: stopped
train:
  model: {arch: gpt2, layers: 2, hidden: 32, heads: 4, context: 32}
  data: {path: corpus.txt, tokenizer: bytes}
  steps: 1500
  batch: {global: 16, micro: 8}
  optimizer: {lr: 1e-3, warmup: 4}
parallel: {dp: 2}
resources: {device: cpu}
checkpoint: {directory: ckpt, every: 1000}
restart: {max: 0}
END
rows() { cat ckpt/metrics.csv 2>/dev/null | grep -c '^[0-9]'; }
rows_at_least() { [ "$(rows)" -ge "$1" ]; }
state_is() { [ "$(belay status 1 -o json | jq -r .state)" = "$1" ]; }
quietly() { "$@" >out 2>&1 || { diag "$(cat out)"; return 1; }; }
ok "a cluster" quietly belay up --nodes 2 --slots 1
ok "a job" quietly belay submit job.yaml
ok "it trains" until_true 30 rows_at_least 20
pid=$(belay describe 1 -o json | jq '.. | objects | select(has("pid")) | .pid' | head -1)
ok "one rank is told to stop, and not by belayd" kill -TERM "$pid"
ok "it comes to its end" until_true 90 state_is completed
is "every step once" "$(cut -d, -f1 ckpt/metrics.csv | tail -n +2)" "$(seq 1 1500)"
like "the other attempt was not charged: restart.max is 0" "$(belay events 2>/dev/null || belay events 1)" 'stopped from outside'
