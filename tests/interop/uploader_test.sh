#!/usr/bin/env bash
# The uploader of rank 0: checkpoints go to a bucket one after the other while the main thread does something else, and come back to an empty directory.
. "$(dirname "$0")/upload_lib.sh"

# job NAME WORD...: NAME.yaml, a job whose checkpoints go to s3://runs/NAME; more lines of its checkpoint section follow
job() {
  cat >"$1.yaml" <<END
name: $1
train:
  model: {arch: gpt2, layers: 2, hidden: 32, heads: 4, context: 32}
  data: {path: corpus.txt, tokenizer: bytes}
  steps: 24
  batch: {global: 16, micro: 4}
checkpoint:
  upload: {url: "s3://runs/$1", endpoint: "$endpoint", part: 5MiB}
  directory: ${2:-run}
END
  printf '  %s\n' "${@:3}" >>"$1.yaml"
}
# commands JOB LINE...: the probe's answers to all of them in out
commands() { printf '%s\n' "${@:2}" | "$BELAY_TEST_PROGRAMS/uploader_probe" "$1.yaml" 10 20 2 >out 2>err; }
# One that stays: tell LINE, then its answers are in talk.out
talk() {
  rm -f talk.in && mkfifo talk.in
  "$BELAY_TEST_PROGRAMS/uploader_probe" "$1.yaml" 10 20 2 <talk.in >talk.out 2>talk.err &
  talking=$!
  exec 8>talk.in
}
tell() { echo "$1" >&8; }
told() { grep -q -- "$1" talk.out; }
several_requests() { [ "$(wc -l <s3/log)" -ge 3 ]; } # the first one's second try has begun, whatever it was
hang_up() { exec 8>&-; wait "$talking"; }

job plain
ok "two checkpoints go there" commands plain "add 1" "wait 60000" "add 2" "wait 60000"
is "and it is told of each" "$(sed 's/, .*//' out | tr '\n' ' ')" "added 1 step 1: done all told added 2 step 2: done all told "
ok "they are complete" test -e s3/data/runs/plain/step-00000002/manifest.json._S3rver_object
ok "a step that is not on the shelf" commands plain "add 7" "wait 60000"
like "is told to be gone" "$(cat out)" '^step 7: gone, 0 bytes, it was removed from checkpoint.directory before it was uploaded; raise checkpoint.keep, or see what held it up: .*step-00000007.*: No such file or directory$'

# ---- slower than the run
job slow
fresh_log
fault '{"once": "hold", "at": "part 2"}'
talk slow
tell "add 1"
until_true 30 test -e s3/held
ok "an upload hangs" test -e s3/held
tell "add 2"; tell "add 3"; tell "wait 1"
ok "who adds is not held up by it" until_true 10 told 'added 3'
ok "the one that waited is overtaken" told '^step 2: overtaken, 0 bytes, a newer one came before it was its turn; the bucket is slower than checkpoint.every$'
ok "waiting has a limit" until_true 10 told 'something is left'
tell "wait 60000"
ok "what hung is tried again, then the newest goes" until_true 60 told 'all told'
is "in this order" "$(sed -n 's/^step \(.\): \([a-z]*\).*/\1 \2/p' talk.out | tr '\n' ' ')" "2 overtaken 1 done 3 done "
hang_up
is "only the newest and the first are there" "$(ls s3/data/runs/slow | tr '\n' ' ')" "step-00000001 step-00000003 "

# ---- a server that does not answer
job silent
fresh_log
fault '{"seed": 1, "rate": 1, "kinds": ["stall"]}'
talk silent
tell "add 1"
ok "an upload is tried again" until_true 30 several_requests
tell "add 2"; tell "add 3"
ok "the one that waited says that requests fail" until_true 10 told '^step 2: overtaken, 0 bytes, a newer one came before it was its turn: requests of the upload before it fail'
rm -f s3/faults
tell "wait 60000"
ok "then they go through" until_true 60 told 'all told'
hang_up

# ---- the end of a run while an upload is under way
job ended
fresh_log
fault '{"once": "hold", "at": "part 3"}'
talk ended
tell "add 1"
until_true 30 test -e s3/held
ok "it ends at once" hang_up
is "and leaves what it sent" "$(uploads_left)" 1
ok "the next attempt adds where it goes on from" commands ended "add 1" "wait 60000"
like "it is done" "$(cat out)" '^step 1: done'
is "parts that were there are not sent again" "$(requests '^PUT ended/step-00000001/rank-00000.safetensors part [12] ')" 2
is "nothing is left" "$(uploads_left)" 0

# ---- a bucket that does not take it
job down
fault '{"seed": 1, "rate": 1, "kinds": ["503"]}'
printf 'add 1\nwait 60000\n' | "$BELAY_TEST_PROGRAMS/uploader_probe" down.yaml 3 10 2 >out 2>err
like "what is given up is told" "$(cat out)" '^step 1: failed, 0 bytes, cannot look at down/step-00000001/rank-00000.safetensors in s3://runs at .*: status 503, after 3 tries$'
rm -f s3/faults
ok "the next is tried all the same" commands down "add 2" "wait 60000"
like "and done" "$(cat out)" '^step 2: done'
env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$BELAY_TEST_PROGRAMS/uploader_probe" down.yaml </dev/null >out 2>err
is "without keys it does not begin" $? 1
like "and says so" "$(cat err)" '^there are no keys for object storage'

# ---- back
fetch_into() { mkdir -p "$2" && job "$1" "$2" "${@:4}" && commands "$1" "fetch $3"; }
ok "an empty directory" fetch_into slow new1 1
is "takes the newest" "$(cat out)" "fetched 3"
ok "whole" diff -r "$(step 3)" new1/step-00000003
ok "one that has a checkpoint" fetch_into slow new1 2
is "is left alone" "$(cat out)" "fetched 0"
ok "resume: never" fetch_into slow new2 1 "resume: never"
is "takes none" "$(cat out)" "fetched 0"
ok "but a later attempt of the job" fetch_into slow new2 2 "resume: never"
is "goes on" "$(cat out)" "fetched 3"
ok "resume: 1" fetch_into slow new3 1 "resume: 1"
is "takes that one" "$(cat out)" "fetched 1"
ok "a bucket with nothing" fetch_into nothing new4 1
is "is no error" "$(cat out)" "fetched 0"
AWS_SECRET_ACCESS_KEY=wrong fetch_into slow new5 1
like "one that cannot be read is" "$(cat out)" '^not fetched: the checkpoint to go on from cannot be brought from s3://runs/slow: .*SignatureDoesNotMatch'
plan "$TAP_COUNT"
