#!/usr/bin/env bash
# `belay up` also works when somebody has taken belayd's port while it was away; the job does not notice.
. "$(dirname "$0")/../lib.sh" || exit 1
: "${SCRATCH:?tests/lib.sh was not read}"
plan 8

cat >"$SCRATCH/job.yaml" <<YAML
name: stay
run: {command: [sleep, "1000"], ranks: 2}
resources: {memory: 1MiB}
YAML
belay up --nodes 2 --slots 1 >/dev/null
id=$(cd "$SCRATCH" && belay submit job.yaml)
ok "a job runs" until_true 20 job_is "$id" running
port=$(cat "$BELAY_DIR/belayd.port")
ranks() { cat "$BELAY_DIR"/agents/*/attempts/*/state.json | grep -oE '"pid": *[0-9]+' | sort; }
before=$(ranks)

kill9 "$(json .pid <"$BELAY_DIR/belayd.pid")"
perl -MIO::Socket::INET -e '
  my ($port, $ready) = @ARGV;
  for (1 .. 200) {
    $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 5, ReuseAddr => 1) and last;
    select undef, undef, undef, 0.02;
  }
  $s or exit 1;
  open my $f, ">", $ready; close $f;
  sleep 60' "$port" "$SCRATCH/taken" & squatter=$!
ok "its port is taken" until_true 10 test -e "$SCRATCH/taken"
ok "up works" quiet belay up
ok "... on another port" test "$(cat "$BELAY_DIR/belayd.port")" != "$port"
is "both nodes are up" "$(belay nodes -o json | json .0.state) $(belay nodes -o json | json .1.state)" "up up"
is "the job runs on" "$(job "$id" .state) $(job "$id" .attempt)" "running 1"
is "... with the same processes" "$(ranks)" "$before"
like "up again has nothing to do" "$(belay up)" "is up already"
kill9 "$squatter"
wait "$squatter" 2>/dev/null || true # killed, as meant
