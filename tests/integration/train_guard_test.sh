#!/usr/bin/env bash
# The guard in a real run: a NaN, or rubbish among the data, is skipped, gone back from, or ends the job, and metrics.csv tells it.
. "$(dirname "$0")/train_lib.sh"
plan 38

column() { # column NAME OF STEP: of OF/metrics.csv
  perl -F, -slane 'if ($. == 1) { ($i) = grep { $F[$_] eq $name } 0 .. $#F } elsif ($F[0] == $step) { print $F[$i] }' -- -name="$1" -step="$3" "$2/metrics.csv"
}
skipped() { perl -F, -lane 'if ($. == 1) { ($i) = grep { $F[$_] eq "skipped" } 0 .. $#F } elsif ($F[$i] == 1) { print $F[0] }' "$1/metrics.csv" | tr '\n' ' '; }
samples() { json .position.samples <"$1/step-00000024/manifest.json"; }
mesh4=(--set parallel.tp=2 --set parallel.pp=2)

# --- skip
job_file skip
BELAY_FAULT=nan@8:rank=3 under 4 belay-train skip.yaml "${mesh4[@]}" >out 2>err
is "skip: it goes on to the end" $? 0
ok "skip: every step is there once" complete skip 24
is "skip: one step is marked" "$(skipped skip)" "8 "
like "skip: said" "$(cat err)" 'step 8: the loss is -?nan; its update is skipped \(spike 1 of at most 3 within 64 steps\)'
like "skip: the loss is told as it was" "$(column loss skip 8)" '^-?nan$'
is "skip: its samples are used up" "$(samples skip)" $((24 * 16))
branch skip skipped 15
ok "skip: goes on after it" to out under 4 belay-train skipped.yaml "${mesh4[@]}"
is "skip: bit by bit" "$(losses skipped)" "$(losses skip)"
job_file gradient
BELAY_FAULT=nangrad@8:rank=0 under 4 belay-train gradient.yaml "${mesh4[@]}" >out 2>err
is "a gradient that is no number is skipped too" "$? $(skipped gradient)" "0 8 "
like "a gradient that is no number: said" "$(cat err)" 'step 8: the gradient norm is -?nan; its update is skipped'
is "the losses are those of the other run but for that" "$(losses gradient | sed 9d)" "$(losses skip | sed 9d)"

# --- rollback
back=(--set train.guard.action=rollback)
job_file back; job_file back4
ok "rollback: one rank" to out env BELAY_FAULT=nan@8 belay-train back.yaml "${back[@]}"
like "rollback: said" "$(cat out)" 'going back from step 7 to the checkpoint of step 5, and past the samples in between'
ok "rollback: every step is there once" complete back 24
is "rollback: none is marked" "$(skipped back)" ""
is "rollback: samples of three more steps are used up" "$(samples back)" $((27 * 16))
is "rollback: and the tokens of all that was computed are counted" "$(column tokens back 24)" $((27 * $(column tokens back 1)))
ok "rollback: no loss is NaN" test -z "$(losses back | grep nan)"
BELAY_FAULT=nan@8:rank=2 under 4 belay-train back4.yaml "${back[@]}" --set parallel.tp=2 --set parallel.dp=2 --set parallel.zero=2 >out 2>&1
is "rollback: four ranks" $? 0
ok "rollback: with the same curve" close_columns 2 1e-5 back back4
job_file early
BELAY_FAULT=nan@3 belay-train early.yaml "${back[@]}" >out 2>err
is "rollback before there is a checkpoint skips" "$? $(skipped early)" "0 3 "
like "rollback before there is a checkpoint: said" "$(cat err)" 'there is no checkpoint to go back to, so the update is skipped'

# --- rollback, and the newest checkpoint is damaged by now: training waits before the save of step 15, of which nothing comes, until it is
job_file rotten
faults rotten "mkdir:.step-00000015:1:gate=$PWD/gate open:.step-00000015:1:ENOSPC"
env "${FAULTFS[@]}" BELAY_FAULT=nan@17 belay-train rotten.yaml "${back[@]}" >out 2>err &
pid=$!
ok "damaged: training waits" held gate
ok "damaged: the checkpoint of step 10 is there" until_true 30 test -e rotten/step-00000010
printf rot | dd of=rotten/step-00000010/rank-00000.safetensors bs=1 seek=20000 conv=notrunc status=none
touch gate
wait $pid
is "damaged: the run ends well" $? 0
like "damaged: said" "$(cat err)" 'skipping checkpoint step 10: .*rank-00000.safetensors'
like "damaged: the one before it is taken" "$(cat out)" 'going back from step 16 to the checkpoint of step 5, and past the samples in between'
ok "damaged: every step is there once" complete rotten 24

# --- a step that fails again and again, and a run that gets nowhere
job_file again
BELAY_FAULT=nan@8:times=9 belay-train again.yaml "${back[@]}" --set train.guard.patience=2 >out 2>err
is "patience: ends with 94" $? 94
is "patience: after going back twice" "$(grep -c 'going back' out)" 2
like "patience: said" "$(cat err)" 'step 8: .* after 2 spikes within 64 steps; the job stops'
is "patience: no row of the step" "$(rows again)" 7
ok "patience: the fault gone, it finishes" to out belay-train again.yaml
ok "patience: every step is there once" complete again 24

# --- stop
job_file stop
BELAY_FAULT=nan@8 belay-train stop.yaml --set train.guard.action=stop >out 2>err
is "stop: ends with 94" "$? $(rows stop)" "94 7"

# --- rubbish among data that is easy to learn, and a NaN right before it
perl -e 'print "ab" x (32 * 100); srand 5; print chr int rand 256 for 1 .. 32; print "ab" x (32 * 100)' >dirty.txt
job_file dirty
sed -i 's/corpus.txt/dirty.txt/; s/global: 16, micro: 4/global: 2, micro: 2/; s/lr: 1e-3/lr: 2e-3/; s/steps: 24/steps: 190/; s/every: 5/every: 200/' dirty.yaml
ok "rubbish in the data is skipped" to out belay-train dirty.yaml
spikes=$(skipped dirty)
like "as one step" "$spikes" '^[0-9]+ $'
sed 's/directory: dirty/directory: both/' dirty.yaml >both.yaml
BELAY_FAULT=nan@$((spikes - 1)) belay-train both.yaml >out 2>&1
is "and right after a NaN, too" "$(skipped both)" "$((spikes - 1)) $spikes"
