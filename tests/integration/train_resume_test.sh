#!/usr/bin/env bash
# A run that was killed, stopped or lost its newest checkpoint goes on as if nothing had happened, bit by bit.
. "$(dirname "$0")/train_lib.sh"
plan 26

job_file straight
ok "a run never interrupted" to out0 belay-train straight.yaml

# --- SIGKILL at two random steps
job_file killed
first=$((RANDOM % 10 + 2)) second=$((RANDOM % 11 + 12))
diag "killed at steps $first and $second"
BELAY_FAULT=kill@$first belay-train killed.yaml >out1 2>&1
is "killed by SIGKILL" $? 137
BELAY_FAULT=kill@$second belay-train killed.yaml >out2 2>&1
is "and once more" $? 137
ok "it goes on to the end" to out3 belay-train killed.yaml
is "every loss is bitwise the same" "$(losses killed)" "$(losses straight)"
ok "no step is missing or doubled" complete killed 24

# --- killed from outside, at whatever instant
job_file outside
belay-train outside.yaml --set train.steps=200 --set checkpoint.every=3 >out4 2>&1 &
pid=$!
until_true 20 rows_at_least outside $((RANDOM % 40 + 5))
kill9 $pid; wait $pid 2>/dev/null
is "killed while it was working" $? 137
job_file reference
ok "reference" to out5 belay-train reference.yaml --set train.steps=200 --set checkpoint.every=200
ok "it goes on" to out6 belay-train outside.yaml --set train.steps=200 --set checkpoint.every=100
is "200 losses are bitwise the same" "$(losses outside | md5sum)" "$(losses reference | md5sum)"

ok "started once more it has nothing to do" to again belay-train outside.yaml --set train.steps=200
like "and says so" "$(cat again)" 'nothing is left to do: step 200 of 200 is done; raise train.steps'

# --- two ranks, one killed
job_file pair; job_file pair0
ok "2 ranks never interrupted" to out7 ranks 2 belay-train pair0.yaml
BELAY_FAULT=kill@13:rank=1 ranks 2 belay-train pair.yaml >out8 2>&1
ok "2 ranks go on after one was killed" to out9 ranks 2 belay-train pair.yaml
is "their losses are bitwise the same" "$(losses pair)" "$(losses pair0)"

# --- SIGTERM and SIGUSR1
job_file asked
belay-train asked.yaml --set train.steps=4000 --set checkpoint.every=4000 >out10 2>&1 &
pid=$!
until_true 20 rows_at_least asked 5
kill -USR1 $pid
saved() { compgen -G 'asked/step-*' >/dev/null; }
ok "SIGUSR1 makes a checkpoint" until_true 20 saved
kill -TERM $pid; wait $pid
is "SIGTERM ends it with 0" $? 0
like "with a checkpoint of its last step" "$(cat asked/latest)" "step-0*$(rows asked)\$"
is "a SIGTERM does not end it without checkpoint" "$(tail -1 asked/metrics.csv | cut -d, -f1)" "$(ls -d asked/step-* | tail -1 | sed 's/.*step-0*//')"

# --- damage
job_file damaged
belay-train damaged.yaml >out11
printf x | dd of=damaged/step-00000024/rank-00000.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
rm damaged/step-00000020/rank-00000.safetensors
belay-train damaged.yaml >out12 2>err12
is "goes on from an older checkpoint" "$?$(grep -o 'resuming from step [0-9]*' out12)" "0resuming from step 15"
like "says which one is damaged" "$(cat err12)" 'skipping checkpoint step 24: .*rank-00000.safetensors is damaged'
like "and which one is incomplete" "$(cat err12)" 'skipping checkpoint step 20: .*No such file'
is "the losses are the same" "$(losses damaged)" "$(losses straight)"

# --- other data
more=(--set train.steps=25)
branch straight held 24
ok "goes on with a part held out" to out13 belay-train held.yaml "${more[@]}" --set train.data.holdout=0.1
like "and says that it may have been trained on" "$(cat out13)" 'not what the checkpoint was trained on \(as many tokens, but others, or another train.data.holdout .*held out now may have been trained on before'
branch straight longer 24
(cat corpus.txt && echo more) >longer.txt
like "says that the corpus is longer" "$(belay-train longer.yaml "${more[@]}" --set train.data.path=longer.txt 2>&1)" '[(][0-9]+ tokens now, [0-9]+ then[)]: the order of the data changes'
