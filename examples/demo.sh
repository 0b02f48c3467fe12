#!/usr/bin/env bash
# make demo: a real cluster on this host, a real training job, one rank killed, one node drained, and the job finishes.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
PATH=${BELAY_BIN:-$here/build/bin}:$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/belay-demo-XXXXXX")
export BELAY_DIR=$work/cluster
bold= dim= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; fi
say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
run() { printf '%s$ %s%s\n' "$dim" "$*" "$plain"; "$@"; }

finish() {
  rc=$?
  set +e # whatever fails below, the cluster is taken down
  if [ -n "${saboteur:-}" ]; then kill "$saboteur" 2>/dev/null; wait "$saboteur" 2>/dev/null; fi
  if [ -e "$BELAY_DIR/belayd.pid" ]; then say "taking the cluster down"; run belay down || rc=1; fi
  if [ "$rc" -eq 0 ]; then rm -rf "$work"; else echo "The demo failed; its files are kept in $work" >&2; fi
  exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT TERM

value() { perl -MJSON::PP -e 'local $/; my $v = decode_json(<STDIN>); for (split /\./, $ARGV[0]) { $v = ref $v eq "ARRAY" ? $v->[$_] : $v->{$_} } print $v // "null"' "$1"; }
step() { belay status "$1" -o json 2>/dev/null | value step 2>/dev/null || true; } # nothing while the job is not there yet
wait_step() { # JOB STEP: until the job trains at that step or beyond
  local s
  while s=$(step "$1"); [ -z "$s" ] || [ "$s" = null ] || [ "$s" -lt "$2" ] || [ "$(belay status "$1" -o json | value state)" != running ]; do sleep 0.1; done
}

cd "$work"
cat /usr/share/common-licenses/* >corpus.txt 2>/dev/null || true
cp "$here/examples/quickstart.yaml" .

say "a cluster on this host: 4 nodes with 2 slots each, in 2 racks"
run belay up --nodes 4 --slots 2 --racks 2
run belay nodes

say "the job: a small GPT-2 on the licence texts of this system ($(wc -c <corpus.txt) bytes), 4 ranks of data parallelism"
run belay validate quickstart.yaml
job=quickstart # a live job may be called by its name

# Halfway a rank is killed; later a node that the job uses is drained.
sabotage() {
  wait_step "$job" 100
  local rank=2 pid node
  pid=$(belay describe "$job" -o json | value attempts.-1.ranks.$rank.pid)
  node=$(belay status "$job" -o json | value placement.$rank.node)
  printf '\n%s>> kill -9 %s  (rank %s on %s)%s\n' "$bold" "$pid" "$rank" "$node" "$plain"
  kill -9 "$pid"
  wait_step "$job" 150
  node=$(belay status "$job" -o json | value placement.0.node)
  printf '\n%s>> belay drain %s --reason "demo: fan is loud"%s\n' "$bold" "$node" "$plain"
  belay drain "$node" --reason "demo: fan is loud" >/dev/null # the job that is followed tells of it
}
say "training, live (a rank will be killed at step 100, a node drained at step 150)"
sabotage & saboteur=$!
follow=0
run belay run quickstart.yaml || follow=$?
job=$(belay status --all -o json | value 0.id)
[ "$follow" -eq 0 ] || { belay describe "$job"; exit 1; }
wait "$saboteur"; saboteur=

say "what happened"
run belay events --job "$job"
run belay nodes

say "summary"
perl -MJSON::PP -e '
  my ($metrics, $status, $attempts) = @ARGV;
  my $j = decode_json($status); my $d = decode_json($attempts); my @rows;
  open my $f, "<", $metrics or die "$metrics: $!"; my $head = <$f>; while (<$f>) { my @c = split /,/; push @rows, [@c[0,1]] }
  my $l = $j->{lost};
  printf "  loss        %.3f at step %d  ->  %.3f at step %d\n", $rows[0][1], $rows[0][0], $rows[-1][1], $rows[-1][0];
  printf "  attempts    %d (restarts after failures: %d, moves: %d), no step missing or doubled: %d rows for %d steps\n", $j->{attempt}, $j->{restarts}, $j->{attempt} - 1 - $j->{restarts}, scalar @rows, $j->{steps};
  printf "  lost time   detect %.2f s, stop %.2f s, place %.2f s, load %.2f s, replay %.2f s\n", map { ($l->{$_} // 0) / 1000 } qw(detect_ms stop_ms place_ms load_ms replay_ms);
  printf "  effective training time ratio %.3f\n", $j->{ettr} // 0;
  die "rows and steps differ\n" if @rows != $j->{steps};
' ckpt/metrics.csv "$(belay status "$job" -o json)" "$(belay describe "$job" -o json)"
