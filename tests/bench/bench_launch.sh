#!/usr/bin/env bash
# Wall time of `belay run` for a program that exits at once (2 ranks on one node), beside `mpirun -n 2 true`, alternating in one run.
# usage: bench_launch.sh [TRIES]
set -euo pipefail
tries=${1:-20}
: "${BELAY_BIN:?}"
PATH=$BELAY_BIN:$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/belay-bench-XXXXXX")
export BELAY_DIR=$work/cluster
trap 'belay down >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
cd "$work"
printf 'name: quick\nrun: {command: ["/bin/true"], ranks: 2}\nresources: {device: cpu, cpus: 1, memory: 16MiB}\n' >quick.yaml
belay up --nodes 1 --slots 2 >/dev/null
mpi=(mpirun -n 2 --oversubscribe)
[ "$(id -u)" -ne 0 ] || mpi+=(--allow-run-as-root)
ms() { local a; a=$(date +%s%N); "$@" >/dev/null 2>&1; echo $(( ($(date +%s%N) - a) / 1000 )); }
belay run quick.yaml >/dev/null 2>&1 # warm
ms "${mpi[@]}" true >/dev/null
for _ in $(seq "$tries"); do
  echo "belay $(ms belay run quick.yaml)"
  echo "mpirun $(ms "${mpi[@]}" true)"
done | perl -ne '
  my ($who, $us) = split; push @{$t{$who}}, $us / 1000;
  END { for (sort keys %t) { my @s = sort { $a <=> $b } @{$t{$_}}; $m{$_} = $s[@s / 2]; printf "%-7s median %7.1f ms   min %7.1f   max %7.1f   (%d runs)\n", $_, $s[@s/2], $s[0], $s[-1], scalar @s }
        printf "ratio belay / mpirun (medians) %.2f\n", $m{belay} / $m{mpirun} }'
