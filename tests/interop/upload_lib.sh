# Shared by the tests of uploads: tests/integration/train_lib.sh, an S3 server with a bucket "runs" (s3_server.cjs), and a run with four checkpoints.
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/integration/train_lib.sh"
: "${BELAY_INTEROP:?set BELAY_INTEROP to the folder with node_modules (make check-interop does)}"
export NODE_PATH=$BELAY_INTEROP/node_modules
unset AWS_SESSION_TOKEN AWS_PROFILE AWS_SHARED_CREDENTIALS_FILE
export AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER HOME=$SCRATCH no_proxy=127.0.0.1
part=5242880

mkdir -p s3/data && mkfifo s3/in
node "$root/tests/interop/s3_server.cjs" "$SCRATCH/s3" runs <s3/in >s3/out 2>&1 &
exec 9>s3/in # the server ends when this shell does
until_true 60 test -e s3/port || diag "$(cat s3/out)"
endpoint=http://127.0.0.1:$(cat s3/port)

requests() { grep -cE -- "$1" s3/log; }
fault() { printf '%s' "$1" >s3/faults.new && mv s3/faults.new s3/faults; }
fresh_log() { : >s3/log; rm -f s3/faults s3/held; }
uploads_left() { ls s3/data/runs/._S3rver_uploads 2>/dev/null | wc -l; }

# run: checkpoints of steps 1 to 4, of two files with several parts each
step() { printf 'run/step-%08d' "$1"; }
sizes="--set train.model.hidden=320 --set parallel.zero=1 --set resources.memory=1GiB"
job_file run
# shellcheck disable=SC2086
ok "a run leaves four checkpoints of two files" to train.out ranks 2 belay-train run.yaml $sizes --set train.steps=4 --set checkpoint.every=1 \
  --set checkpoint.keep=9 --set checkpoint.busy=wait
