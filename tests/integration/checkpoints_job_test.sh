#!/usr/bin/env bash
# What belayd lists of a job's checkpoints is what its directory holds, by every rule; and the commands for storage find the directory by the job.
. "$(dirname "$0")/../lib.sh"
plan 9
cd "$SCRATCH" || exit 1
cat /usr/share/common-licenses/{Apache-2.0,GPL-2,GPL-3} >corpus.txt
cat >rules.yaml <<'Y'
name: rules
train:
  model: {arch: gpt2, layers: 2, hidden: 32, heads: 4, context: 32}
  data: {path: corpus.txt, tokenizer: bytes, holdout: 0.1}
  eval: {every: 5, sequences: 8}
  steps: 40
  batch: {global: 8, micro: 4}
resources: {device: cpu, cpus: 1, memory: 64MiB}
checkpoint: {directory: ckpt, every: 5, busy: wait, keep: 1, keep_every: 20, keep_best: 2}
Y
ok "a cluster starts" quiet belay up --nodes 1 --slots 2
ok "a job trains" quiet belay run rules.yaml
told=$(belay checkpoints rules -o json)
count=$(json .length <<<"$told")
listed=$(for ((i = 0; i < count; i++)); do json .$i.step <<<"$told"; done | xargs)
is "what belayd lists is what is there" "$listed" "$(cd ckpt && echo step-* | sed 's/step-0*//g')"
like "the newest, every twentieth, and the two best" " $listed " ' 20 .* 40 '
is "with the loss of the row in metrics.csv" "$(json .0.held_loss <<<"$told" | cut -c1-8)" \
  "$(perl -F, -lane 'if ($. == 1) { for (0..$#F) { $c = $_ if $F[$_] eq "held_loss" } } elsif ($F[0] == '"$(json .0.step <<<"$told")"') { print substr($F[$c], 0, 8) }' ckpt/metrics.csv)"
like "verify finds the directory by the job's name" "$(belay checkpoints verify rules --all)" 'ckpt/step-00000040: good'
is "and list by its id" "$(belay checkpoints list 1 -o json | json .length)" "$count"
ok "an ended job's directory may be pruned" quiet belay checkpoints prune rules --keep 1
is "down to one" "$(cd ckpt && echo step-*)" step-00000040
