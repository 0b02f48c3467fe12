#!/usr/bin/env bash
# What goes wrong stops every rank in the same way, leaves no damage, and is said in one sentence.
. "$(dirname "$0")/train_lib.sh"
plan 46

no_later_step() { [ "$(ls -d "$1"/step-* | tail -1)" = "$1/step-00000005" ]; }
for kind in nan nangrad; do
  job_file $kind
  BELAY_FAULT=$kind@8:rank=1 ranks 2 belay-train $kind.yaml --set train.guard.action=off >out 2>err
  is "$kind on rank 1 of 2 ends with 94" $? 94
  like "$kind: the sentence names the step" "$(cat err)" 'the (loss|gradient) is not finite at step 8; nothing was updated'
  is "$kind: no row of that step" "$(rows $kind)" 7
  ok "$kind: no checkpoint after it" no_later_step $kind
done
like "where a loss goes wrong is named" "$(BELAY_FAULT=nan@9:rank=1 ranks 2 belay-train nan.yaml --set train.guard.action=stop 2>&1)" 'rank 1: the loss is not finite at step 9'
ok "the fault gone, it finishes" to out belay-train nan.yaml
ok "all steps are there once" complete nan 24

# --- refusals before any work: code 2 or 93, one sentence, nothing written
refuse() { # refuse DESCRIPTION CODE REGEX ARGS...
  local what=$1 code=$2 pattern=$3; shift 3
  belay-train refuse.yaml "$@" >out 2>err
  is "$what: exit code" $? "$code"
  like "$what: sentence" "$(cat err)" "$pattern"
}
job_file refuse
refuse "more ranks wanted than started" 2 'wants 2 ranks .* but 1 started' --set parallel.dp=2
refuse "a batch that cannot be split" 2 'batch' --set train.batch.micro=5
refuse "a mistyped option" 2 'error: unknown option --sett \(did you mean --set\?\); see belay-train --help' --sett train.steps=5
refuse "an option without its value" 2 'error: --set wants a value; see belay-train --help' --set
refuse "missing data" 1 "train.data: cannot open nowhere.txt: .*; relative paths start at the folder of the submit .*, $(realpath .)\$" --set train.data.path=nowhere.txt
refuse "a directory that cannot be made" 1 'cannot make the folder /proc/nowhere' --set checkpoint.directory=/proc/nowhere
refuse "a step that is not there" 93 'asks for step 7, of which refuse has no complete checkpoint; there is none: leave checkpoint.resume out' --set checkpoint.resume=7
is "nothing was trained" "$(ls refuse/step-* 2>/dev/null | wc -l)" 0
refuse "a step that is not there among others" 93 'asks for step 7, of which nan has no complete checkpoint; there are those of the steps 15, 20, 24' --set checkpoint.resume=7 --set checkpoint.directory=nan
mkdir -p many/step-000000{1..9}1
refuse "a step that is not there among many" 93 'has no complete checkpoint; there are 9, of steps 11 to 91$' --set checkpoint.resume=7 --set checkpoint.directory=many
ranks 2 belay-train refuse.yaml --set train.steps=0 >out 2>err
is "refused under mpirun too" $? 2

# --- another model's checkpoint is not used and not harmed
belay-train nan.yaml --set train.model.hidden=64 >out 2>err
is "another model: do not retry" $? 93
like "another model: sentence" "$(cat err)" 'step 24 cannot be resumed: it is of another model: hidden is 32 there and 64 in the job'

belay-train nan.yaml --set train.model.heads=2 >out 2>err
is "other heads of the same shapes: do not retry" $? 93
like "other heads: sentence" "$(cat err)" 'step 24 cannot be resumed: it is of another model: heads is 4 there and 2 in the job'

# --- an attempt that is overtaken while it loads leaves its successor's files alone
job_file late
export BELAY_JOB_ID=8
BELAY_ATTEMPT=1 belay-train late.yaml --set train.steps=12 >out 2>&1 # steps 5, 10, 12
mkfifo gate; mv late/step-00000012/manifest.json kept; ln gate late/step-00000012/manifest.json
(exec 8>gate; touch at_gate; until_true 60 test -e go) &
BELAY_ATTEMPT=2 belay-train late.yaml --set train.steps=12 >out1 2>err1 &
pid=$!
ok "an attempt hangs while it reads a checkpoint" until_true 20 test -e at_gate
mv kept late/step-00000012/manifest.json
BELAY_ATTEMPT=3 belay-train late.yaml >out2 2>err2
is "the next attempt goes on and finishes" "$?$(grep -o 'resuming from step [0-9]*' out2)" "0resuming from step 12"
touch go
wait $pid
is "the one before, let go, ends with 95" $? 95
is "it moved no checkpoint away" "$(ls -d late/step-* | tail -1)" "late/step-00000024"
ok "it left metrics.csv alone" complete late 24
unset BELAY_JOB_ID

# --- fencing
job_file fence
BELAY_JOB_ID=7 BELAY_ATTEMPT=1 belay-train fence.yaml --set train.steps=100000 --set checkpoint.every=20 >out1 2>err1 &
pid=$!
until_true 20 rows_at_least fence 3
BELAY_JOB_ID=7 BELAY_ATTEMPT=2 BELAY_FAULT=hang@1000000 belay-train fence.yaml >out2 2>err2
is "a newer attempt takes over" $? 0
wait $pid
is "the older one ends with 95" $? 95
like "and says by whom" "$(cat err1)" 'superseded: job "7" attempt 2'
BELAY_JOB_ID=7 BELAY_ATTEMPT=1 belay-train fence.yaml >out 2>err
is "a late start of the older one is refused" $? 95

# --- no room on the disk: training goes on, the last save is an error
job_file full
(ulimit -f 20; exec belay-train full.yaml) >out 2>err
is "a failed last save is an error" "$?$(rows full)" "124"
is "each failed save is told" "$(grep -c 'step [0-9]* cannot be saved: cannot write full/.*: File too large' err)" 5
