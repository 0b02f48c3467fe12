#!/usr/bin/env bash
# Checkpoints in a bucket: s3rver (npm) behind s3_server.cjs, which compares every signature with aws4's and every body with its hashes, and breaks
# what a test asks it to break.
. "$(dirname "$0")/upload_lib.sh"

# probe PREFIX WORD...: its output in out, its sentences in err
probe() { "$BELAY_TEST_PROGRAMS/upload_probe" --url "s3://runs/$1" --endpoint "$endpoint" --pause 20 "${@:2}" >out 2>err; }
works() { probe "$@" || { diag "$(cat err)" "$(tail -n 20 s3/log)"; return 1; }; }
refused() { ! probe "$@"; }
counted() { sed -n "s/.*$1 \([0-9]*\).*/\1/p" out; } # parts, reused, sent, received, retries
# broken PREFIX STEP FILE PART: a process that sends a file is killed in the middle of a part
broken() {
  rm -f s3/held
  fault '{"once": "hold", "at": "part '"$4"'"}'
  "$BELAY_TEST_PROGRAMS/upload_probe" --url "s3://runs/$1" --endpoint "$endpoint" shard "$2" "$3" >out 2>err &
  local pid=$!
  until_true 30 test -e s3/held
  kill9 $pid; wait $pid 2>/dev/null
}
one_line() { [ "$(wc -l <err)" = 1 ]; }
without_secret() { ! grep -rqF -- "$1" out err; }

ok "their files need several parts" test "$(stat -c %s "$(step 1)/rank-00001.safetensors")" -gt $((2 * part))
ok "and do not end with a part" test $(($(stat -c %s "$(step 1)/rank-00001.safetensors") % part)) -ne 0

# ---- there and back
ok "an empty bucket is no error" works a newest back0
like "and nothing is brought" "$(cat out)" '^step 0$'
ok "a checkpoint goes there" works a folder "$(step 1)"
is "the manifest goes last" "$(grep '^PUT' s3/log | tail -n 1)" "PUT a/step-00000001/manifest.json fine"
ok "it comes back" works a download 1 back
ok "with the same bytes" diff -r "$(step 1)" back/step-00000001
ok "and can be gone on from" to again.out ranks 2 belay-train run.yaml $sizes --set train.steps=5 --set checkpoint.directory=back
like "from its step" "$(cat again.out)" 'resuming from step 1'
ok "sent again" works a folder "$(step 1)"
is "nothing is sent" "$(counted sent)" 0
ok "bytes from the middle" works a get a/step-00000001/rank-00000.safetensors 1000 7000000 middle
ok "are those of the file" cmp middle <(tail -c +1001 "$(step 1)/rank-00000.safetensors" | head -c 7000000)
ok "another goes there" works a folder "$(step 3)"
ok "the newest is asked for" works a newest back2
like "it is that of step 3" "$(cat out)" '^step 3$'
ok "and it is the same" diff -r "$(step 3)" back2/step-00000003

# ---- killed and resumed
fresh_log
shard=$(step 1)/rank-00001.safetensors
broken killed 1 "$shard" 2
ok "killed in the middle of a part, it is resumed" works killed shard 1 "$shard"
count=$((($(stat -c %s "$shard") + part - 1) / part))
is "what was there is not sent again" "$(counted reused)" 1
is "the broken part is sent twice" "$(requests 'part 2 ')" 2
is "the others once" "$(requests ' part ')" $((count + 1))
is "in one upload" "$(requests '^POST .* uploads ')" 1
ok "the object is the file" works killed get killed/step-00000001/rank-00001.safetensors 0 "$(stat -c %s "$shard")" object
ok "byte for byte" cmp object "$shard"

probe cancelled --cancel-after 1 shard 1 "$shard"
is "a cancelled one says so by its exit code" $? 2
ok "and is resumed" works cancelled shard 1 "$shard"
ok "from what is there" test "$(counted reused)" -ge 1

# An upload that was begun for other content says another hash for ever: it cannot be gone on with, though some of its parts fit.
cp "$shard" other && printf x | dd of=other bs=1 seek=$((count * part - part + 10)) conv=notrunc 2>/dev/null
mkdir -p begun && mv other begun/rank-00001.safetensors
broken begun 1 begun/rank-00001.safetensors "$count"
ok "an upload of other content does not mix with this" works begun shard 1 "$shard"
ok "the object" works begun get begun/step-00000001/rank-00001.safetensors 0 "$(stat -c %s "$shard")" object
ok "is this file" cmp object "$shard"
ok "and says so" works begun shard 1 "$shard"
is "so that nothing is sent again" "$(counted sent)" 0

# ---- faults
for seed in 1 2 3; do
  fresh_log
  fault '{"seed": '$seed', "rate": 0.3, "kinds": ["500", "503", "429", "reset", "cut", "flip"]}'
  ok "seed $seed: it goes there through faults" works "faults$seed" folder "$(step 2)"
  ok "seed $seed: and back" works "faults$seed" newest "faulty$seed"
  ok "seed $seed: with the same bytes" diff -r "$(step 2)" "faulty$seed/step-00000002"
  ok "seed $seed: there were faults" test "$(grep -vc 'fine$' s3/log)" -gt 3
done
rm -f s3/faults
is "no upload is left behind" "$(uploads_left)" 0
fault '{"once": "stall", "at": "part 2"}'
ok "a server that stalls in a part is not waited for" works stalled --stall 1 folder "$(step 2)"
is "it costs one try" "$(counted retries)" 1
fault '{"once": "cut", "at": "^POST .* upload$"}'
ok "the answer that all is complete is lost" works lost folder "$(step 2)"
like "it is there all the same" "$(probe lost list; cat out)" '^2 complete$'
fault '{"once": "flip", "at": "part 2"}'; fresh=$(requests BadDigest)
ok "a bit that turns over on its way" works flipped folder "$(step 2)"
is "is noticed by the server" $(($(requests BadDigest) - fresh)) 1
fault '{"seed": 1, "rate": 1, "kinds": ["503"]}'
ok "tries are bounded" refused down --tries 3 folder "$(step 2)"
like "the sentence names all of it" "$(cat err)" \
  "^cannot look at down/step-00000002/rank-00000.safetensors in s3://runs at $endpoint: status 503, after 3 tries$"
rm -f s3/faults

# ---- what must not work
fresh_log
AWS_SECRET_ACCESS_KEY=not-the-secret probe wrong shard 1 "$shard"
is "a wrong key: no" $? 1
like "in one clear sentence, which says what to check" "$(cat err)" '^cannot list the objects in s3://runs at .*: status 403 SignatureDoesNotMatch .*; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'
ok "one line" one_line
ok "without the secret" without_secret not-the-secret
is "and tried once: a HEAD, and a list for the reason" "$(requests '^[A-Z]+ [^/]')" 2
"$BELAY_TEST_PROGRAMS/upload_probe" --url s3://nowhere/a --endpoint "$endpoint" shard 1 "$shard" >out 2>err
is "is told" $? 1
like "with what to do" "$(cat err)" 's3://nowhere at .*: status 404 NoSuchBucket .*; make the bucket, or correct checkpoint.upload.url$'
env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$BELAY_TEST_PROGRAMS/upload_probe" --url s3://runs/a --endpoint "$endpoint" list >out 2>err
like "no keys at all" "$(cat err)" '^there are no keys for object storage: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set'
mkdir -p .aws && printf '[default]\naws_access_key_id = S3RVER\naws_secret_access_key = S3RVER\n' >.aws/credentials
ok "keys of the home folder" to out env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$BELAY_TEST_PROGRAMS/upload_probe" --url s3://runs/a --endpoint "$endpoint" list
ok "a token is signed, too" to out env AWS_SESSION_TOKEN=a-token== "$BELAY_TEST_PROGRAMS/upload_probe" --url s3://runs/a --endpoint "$endpoint" list
"$BELAY_TEST_PROGRAMS/upload_probe" --url s3://runs/a --endpoint http://127.0.0.1:1 --tries 2 --pause 10 newest nothing >out 2>err
is "a server that cannot be reached is no empty bucket" $? 1
like "it is named" "$(cat err)" 's3://runs at http://127.0.0.1:1: .*, after 2 tries$'

cp -r "$(step 2)" damaged
printf '\001' | dd of=damaged/rank-00001.safetensors bs=1 seek=$((part + 5000)) conv=notrunc 2>/dev/null
ok "a file that is damaged here does not go there" refused damaged folder damaged
like "it is named" "$(cat err)" 'damaged/step-00000002/rank-00001.safetensors is not uploaded: it is damaged'
is "and its parts are not left behind" "$(uploads_left)" 0
like "there is no manifest" "$(probe damaged list; cat out)" '^2 incomplete$'

# ---- complete exactly when the manifest is there
ok "one shard of two" works half shard 2 "$(step 2)/rank-00000.safetensors"
ok "no manifest before all shards" refused half manifest "$(step 2)"
like "the missing one is named" "$(cat err)" 'the manifest of step 2 is not uploaded: rank-00001.safetensors is not there yet with its'
ok "what is incomplete is not fetched" works half newest half
like "as if there were none" "$(cat out)" '^step 0$'
ok "the other shard, by another process" works half shard 2 "$(step 2)/rank-00001.safetensors"
ok "then the manifest" works half manifest "$(step 2)"
like "it is complete" "$(probe half list; cat out)" '^2 complete$'

# Each rank its own shard, all at the same time.
for r in 0 1; do
  "$BELAY_TEST_PROGRAMS/upload_probe" --url s3://runs/ranks --endpoint "$endpoint" shard 4 "$(step 4)/rank-0000$r.safetensors" >"out$r" 2>"err$r" &
  pids[r]=$!
done
ok "one rank's shard" wait "${pids[0]}"
ok "and the other's at the same time" wait "${pids[1]}"
ok "and the manifest" works ranks manifest "$(step 4)"
ok "come back" works ranks newest ranks
ok "as they were" diff -r "$(step 4)" ranks/step-00000004

# ---- retention
fresh_log
broken kept 1 "$(step 1)/rank-00000.safetensors" 2
broken kept 1 "$shard" 2
is "two uploads of step 1 broke off" "$(uploads_left)" 2
ok "step 2 goes there" works kept --keep 2 folder "$(step 2)"
is "then nothing is left of the uploads that broke off" "$(uploads_left)" 0
for n in 3 4; do ok "step $n goes there" works kept --keep 2 folder "$(step $n)"; done
is "the newest two stay" "$(probe kept list; grep complete out)" "4 complete
3 complete"
is "of a removed one the manifest went first" "$(grep '^DELETE kept/step-00000002' s3/log | head -n 1)" "DELETE kept/step-00000002/manifest.json fine"
is "nothing of it is left" "$(find s3/data/runs/kept -path '*step-00000002*' -type f | wc -l)" 0

# ---- another branch: the run went back to step 2 and on from there
for n in 1 2 4; do ok "step $n goes there" works branch folder "$(step $n)"; done
ok "step 2 once more" works branch folder "$(step 2)"
is "what is later is no checkpoint any more" "$(probe branch list; grep step out; grep complete out)" "4 incomplete
2 complete
1 complete"
is "but nothing of it is lost" "$(find s3/data/runs/branch -path '*step-00000004*' -name '*_object' | wc -l)" 3
ok "the newest is that of this branch" works branch newest branch
like "step 2" "$(cat out)" '^step 2$'
ok "step 2 has another shard now" works branch shard 2 "$(step 1)/rank-00000.safetensors"
like "its old manifest is gone" "$(probe branch list; cat out)" '^2 incomplete$'

# ---- damage there
file=s3/data/runs/kept/step-00000004/rank-00000.safetensors._S3rver_object
printf '\001' | dd of="$file" bs=1 seek=100000 conv=notrunc 2>/dev/null
ok "the newest is damaged there" works kept newest healed
like "the one before is taken" "$(cat out)" '^step 3$'
like "and it is told why" "$(cat err)" 'skipping the uploaded checkpoint of step 4: .*rank-00000.safetensors is damaged'
is "nothing half is left" "$(ls -A healed | tr '\n' ' ')" "latest step-00000003 "
rm s3/data/runs/kept/step-00000003/rank-00001.safetensors._S3rver_object
ok "when all are damaged, nobody begins from nothing unasked" refused kept newest lost2
like "it is said" "$(tail -n 1 err)" 'none of the uploaded checkpoints can be used: 2 of them are damaged'
plan "$TAP_COUNT"
