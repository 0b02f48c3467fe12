#!/usr/bin/env bash
# Durable submits per second: clients submit over the unix socket, each waiting for its acknowledgement (which comes after the
# commit), on a belayd of its own in a fresh folder under TMPDIR. Beside it: how many fsyncs a second this disk gives.
set -euo pipefail
bin=${BELAY_BIN:-build/bin} programs=${BELAY_TEST_PROGRAMS:-build/tests/programs} seconds=${SECONDS_EACH:-3}
dir=$(mktemp -d "${TMPDIR:-/tmp}/belay-bench-XXXXXX")
trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
t0=$(date +%s%N)
dd if=/dev/zero of="$dir/fsync" bs=4k count=200 oflag=dsync status=none
echo "one writer with fsync: $((200 * 1000000000 / ($(date +%s%N) - t0)))/s"
"$bin/belayd" --dir "$dir" 2>"$dir/belayd.log" &
pid=$!
until "$programs/rest" "$dir" GET /v1/cluster >/dev/null 2>&1; do kill -0 "$pid"; sleep 0.01; done
for clients in 1 4 16 64; do
  echo "$clients clients: $("$programs/submit_storm" "$dir" "$clients" "$seconds" "bench$clients")"
done
