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
