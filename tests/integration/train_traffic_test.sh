#!/usr/bin/env bash
# What metrics.csv says of a step's traffic and waiting is of that step: not of the start, of evaluations or of checkpoints between steps.
. "$(dirname "$0")/train_lib.sh"
plan 5
job_file t llama
ok "a pipeline that evaluates and saves" to out under 4 belay-train t.yaml --set parallel.pp=2 --set parallel.dp=2 \
  --set train.data.holdout=0.05 --set train.eval.every=4

# column NAME: its values of all steps
column() { perl -F, -lane 'BEGIN { $n = shift } if ($. == 1) { ($c) = grep { $F[$_] eq $n } 0 .. $#F; next } print $F[$c]' "$1" t/metrics.csv; }
is "there are evaluations" "$(column held_loss | grep -c .)" 6
for axis in pp dp; do is "each step sends as much over $axis" "$(column "${axis}_mib" | sort -u | wc -l)" 1; done
is "no step waits longer than it takes" "$(column compute_ms | grep -c '^-')" 0
