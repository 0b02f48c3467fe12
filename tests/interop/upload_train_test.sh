#!/usr/bin/env bash
# A training sends its checkpoints to a bucket that fails now and then; its directory is lost; the next start takes the newest from the bucket and ends as if nothing had been.
. "$(dirname "$0")/upload_lib.sh"

# shellcheck disable=SC2034
bucket=(--set checkpoint.upload.url=s3://runs/train --set "checkpoint.upload.endpoint=$endpoint" --set checkpoint.every=4 --set train.steps=12 --set train.optimizer.schedule=constant)
job_file straight
ok "a run without a bucket" to out belay-train straight.yaml --set train.optimizer.schedule=constant --set train.steps=20
job_file sent
fault '{"seed": 3, "rate": 0.2, "kinds": ["500", "503", "reset"]}'
ok "a run sends its checkpoints through faults" to out belay-train sent.yaml "${bucket[@]}"
like "and says so of the last one" "$(cat out)" '^checkpoint step 12 uploaded: '
rm -f s3/faults
ok "which is complete" test -e s3/data/runs/train/step-00000012/manifest.json._S3rver_object
rm -r sent
ok "its directory is lost; it goes on" to again belay-train sent.yaml "${bucket[@]}" --set train.steps=20
like "from what was brought" "$(cat again)" '^checkpoint step 12 was brought from s3://runs/train$'
like "and read" "$(cat again)" '^resuming from step 12'
is "the losses are those of the straight run" "$(losses sent | sed 1d)" "$(losses straight | sed '1,13d')"
ok "a key that is refused" test "$(AWS_SECRET_ACCESS_KEY=wrong belay-train sent.yaml "${bucket[@]}" --set checkpoint.directory=other >out 2>err; echo $?)" = 1
like "is told before anything begins" "$(cat err)" 'SignatureDoesNotMatch|signature|access'

# --- a bucket that answers nothing but 500
job_file away
fault '{"seed": 3, "rate": 1, "kinds": ["500"]}'
belay-train away.yaml "${bucket[@]}" --set train.steps=100000000 --set limits.grace=1s --set checkpoint.resume=never >away.out 2>away.err &
pid=$!
ok "a bucket that fails for ever: training goes on" until_true 30 rows_at_least away 100
kill -TERM $pid
ok "and whoever stops it does not wait for the bucket" until_true 30 eval "! kill -0 $pid 2>/dev/null"
wait $pid
like "what is not there is said ($?)" "$(cat away.err)" 'not everything is in s3://runs/train yet'
plan "$TAP_COUNT"
