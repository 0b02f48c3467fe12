#!/usr/bin/env bash
# How long the simulator takes for 54 days of 24,576 devices.
set -euo pipefail
make --no-print-directory -s all
: "${BELAY_BIN:=$PWD/build/bin}"
for seed in 1 2 3; do
  begin=$(date +%s%N)
  "$BELAY_BIN/belay" sim examples/sim-llama3.yaml --seed "$seed" | sed -n 2p
  echo "54 days, 3,072 nodes x 8, a job of 16,384 ranks, seed $seed: $(( ($(date +%s%N) - begin) / 1000000 )) ms (aim: 60,000 ms)"
done
