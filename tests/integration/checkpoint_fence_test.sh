#!/usr/bin/env bash
# Two attempts of a job write a checkpoint of the same step: the older one can commit only what it commits before the newer one begins. A gate
# (tests/programs/faultfs.c) stops the older one's thread between two chosen calls.
. "$(dirname "$0")/train_lib.sh"
plan 20
export BELAY_JOB_ID=7

# older NAME RULE SETS...: attempt 1 in the background ($pid), which stops where RULE says
older() {
  local name=$1 rule=$2; shift 2
  job_file "$name"
  faults "$name" "$rule:gate=$PWD/$name.gate"
  env "${FAULTFS[@]}" BELAY_ATTEMPT=1 belay-train "$name.yaml" --set checkpoint.busy=wait "$@" >"$name.out1" 2>"$name.err1" &
  pid=$!
}
newer() { BELAY_ATTEMPT=2 belay-train "$1.yaml" --set checkpoint.busy=wait >"$1.out2" 2>"$1.err2"; }
written_by() { tr -d ' \n' <"$1/step-000000$2/manifest.json" | grep -o '"attempt":[0-9]*'; } # written_by NAME STEP

job_file straight
ok "a run of one attempt" to out env BELAY_ATTEMPT=1 belay-train straight.yaml

# --- all is sealed, and the newer attempt comes before the older one has looked at the claim
older sealed "fsync:/.step-00000010.1.:3"
ok "the older attempt has sealed step 10 and not committed" held sealed.gate
ok "it trains on meanwhile" until_true 30 rows_at_least sealed 15
ok "the newer one goes on and finishes" newer sealed
is "from the checkpoint before" "$(grep -o 'resuming from step [0-9]*' sealed.out2)" "resuming from step 5"
list=$(find sealed -type f -printf '%p %i %s %T@\n' | sort)
touch sealed.gate
wait $pid
is "the older one, let go, ends with 95" $? 95
like "and says by whom" "$(cat sealed.err1)" 'superseded: job "7" attempt 2 has claimed'
is "it called nothing durable but step 5" "$(grep -o '^checkpoint step [0-9]*' sealed.out1)" "checkpoint step 5"
is "it has changed no file" "$(find sealed -type f -printf '%p %i %s %T@\n' | sort)" "$list"
is "step 10 would have been the newer one's" "$(written_by sealed 24)" '"attempt":2'
is "the losses are those of one attempt" "$(losses sealed)" "$(losses straight)"

# --- the older one is in the middle of its commit, with the claim's lock: the newer one waits for it, and goes on from what it committed
older locked "rename:/step-00000010:1" --set train.steps=10
ok "the older attempt is committing step 10" held locked.gate
newer locked &
second=$!
at_lock() { ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c "$PWD/locked/claim.lock" | grep -qx 2; }
ok "the newer one comes to the lock" until_true 30 at_lock
touch locked.gate
wait $pid
is "the older one finishes its commit" "$(grep -o '^checkpoint step [0-9]*' locked.out1 | tail -1)" "checkpoint step 10"
wait $second
is "the newer one goes on from there" "$?$(grep -o 'resuming from step [0-9]*' locked.out2)" "0resuming from step 10"
job_file ten
BELAY_ATTEMPT=1 belay-train ten.yaml --set train.steps=10 >out && BELAY_ATTEMPT=2 belay-train ten.yaml >out # its learning rate was another one, too
is "with the losses of two that did not meet" "$(losses locked)" "$(losses ten)"

# --- the newer one comes while the older one writes, and before it has begun to: then nobody sweeps what it makes, and only the claim stops it
for when in "writes write:/rank-00000.safetensors:2" "begins mkdir:/.step-00000010.1.:1"; do
  read -r what rule <<<"$when"
  older "$what" "$rule"
  held "$what.gate"
  newer "$what"
  touch "$what.gate"
  wait $pid
  is "an attempt that is overtaken when it $what a save ends with 95" "$?" 95
  is "and changes nothing" "$(steps_of "$what")$(written_by "$what" 24)$(losses "$what")" "15 20 24 \"attempt\":2$(losses straight)"
done
