#!/usr/bin/env bash
# A program that counts steps, saves its count when it gets SIGUSR1, and goes on from the file it is told to: what `run:` programs are to do.
#   saver.sh STEPS [EVERY]     EVERY: also saves after every so many steps; the file BROKEN in its folder makes its saves fail
steps=$1 every=${2:-0} step=0 wanted=
if [ -n "${BELAY_RESUME_FROM:-}" ]; then
  step=$(cat "$BELAY_RESUME_FROM")
  echo "goes on from step $step"
fi
save() {
  wanted=
  if [ -e BROKEN ]; then
    belay notify "CHECKPOINT_FAILED=$step" "CHECKPOINT_WHY=$(cat BROKEN)"
  else
    echo "$step" >"saved-$step.part" && mv "saved-$step.part" "saved-$step"
    belay notify "CHECKPOINT_DURABLE=$step" "PATH=saved-$step" CHECKPOINT_BYTES=3 CHECKPOINT_STAGED_MS=4 CHECKPOINT_DURABLE_MS=1234
  fi
}
trap wanted=yes USR1
belay notify CHECKPOINT_ON=SIGUSR1
while [ "$step" -lt "$steps" ]; do
  sleep 0.05
  step=$((step + 1))
  belay notify "STEP=$step"
  if [ -n "$wanted" ] || { [ "$every" -gt 0 ] && [ $((step % every)) -eq 0 ]; }; then save; fi
done
