#!/usr/bin/env bash
# Data parallelism over a slow network: seconds a step when the sums of gradients run beside the computing, and when they follow it. Two ranks
# with a core each, in two network namespaces of this host, joined by a link of RATE (1gbit) over which Open MPI speaks TCP. Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
RATE=${RATE:-1gbit}
for tool in ip tc unshare taskset mpirun; do
  command -v "$tool" >/dev/null || { echo "overlap not measured: there is no $tool here (packages iproute2, util-linux, openmpi-bin)"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "overlap not measured: making network namespaces needs root"; exit 0; }
[ "$(nproc)" -ge 2 ] || { echo "overlap not measured: two ranks need two cores"; exit 0; }
bench=build/tests/bench/bench_overlap
make -s "$bench"

name=belay$$ folder=$(mktemp -d)
clean() {
  ip netns del "${name:?}-a" 2>/dev/null || true # its end of the link goes with it, and so the other
  ip netns del "${name:?}-b" 2>/dev/null || true
  rm -rf "${folder:?}"
}
trap clean EXIT
trap 'exit 143' TERM INT

# host a|b COMMAND...: in the namespace, as a host of that name
host() { ip netns exec "$name-$1" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$name-$1" "${@:2}"; }
lay_link() {
  ip netns add "$name-a" && ip netns add "$name-b" &&
  ip -n "$name-a" link add wire type veth peer name wire netns "$name-b" || return
  local side address
  for side in a:10.213.0.1 b:10.213.0.2; do
    address=${side#*:} side=$name-${side%:*}
    ip -n "$side" address add "$address/30" dev wire && ip -n "$side" link set lo up && ip -n "$side" link set wire up &&
    tc -n "$side" qdisc add dev wire root tbf rate "$RATE" burst 256kb latency 50ms || return
  done
}
if ! lay_link 2>"$folder/error"; then
  echo "overlap not measured: a link of $RATE between two network namespaces cannot be made here: $(tail -n 1 "$folder/error")"
  exit 0
fi
# What mpirun takes for ssh: HOST COMMAND...
cat >"$folder/enter" <<END
#!/bin/sh
host=\$1; shift
exec ip netns exec "\$host" unshare --uts sh -c 'hostname "\$0"; eval "\$*"' "\$host" "\$@"
END
# a core for each rank
cat >"$folder/pinned" <<'END'
#!/bin/sh
exec taskset -c "$OMPI_COMM_WORLD_RANK" "$@"
END
chmod +x "$folder/enter" "$folder/pinned"
echo "DP 2, a core each, $RATE between them:"
awk '$1 > 1 { print "(other work has the cores, too: load " $1 "; figures of a quiet host are better)" }' /proc/loadavg
export OMP_NUM_THREADS=1 TMPDIR=$folder
host a timeout -k 10 120 mpirun --allow-run-as-root -H "$name-a:1,$name-b:1" --bind-to none -x OMP_NUM_THREADS \
  --mca plm_rsh_agent "$folder/enter" --mca btl self,tcp --mca btl_tcp_if_include wire --mca oob_tcp_if_include wire \
  "$folder/pinned" "$PWD/$bench"
