#!/usr/bin/env bash
# `belay down` leaves nothing, whatever was killed before it: no process, no scratch folder.
. "$(dirname "$0")/../lib.sh" || exit 1
: "${SCRATCH:?tests/lib.sh was not read}" "${BELAY_DIR:?tests/lib.sh was not read}"
plan 14

# Only pids that this test's own clusters have put down in their own folders are ever signalled.
pid_in() { json .pid <"$1" 2>/dev/null; }
pids_in() { local f; for f in "$@"; do [ ! -e "$f" ] || pid_in "$f"; done; }
is_gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:[[:space:]]Z' "/proc/$1/status" 2>/dev/null; }
all_gone() { local p; for p in "$@"; do is_gone "$p" || return 1; done; }
none_exists() { local f; for f in "$@"; do [ ! -e "$f" ] || return 1; done; }
kill_all() { local p; for p in "$@"; do is_gone "$p" || kill9 "$p"; done; }
cat >"$SCRATCH/job.yaml" <<YAML
name: stay
run: {command: [sleep, "1000"], ranks: 4}
resources: {memory: 1MiB}
YAML

# A cluster with a running job; what is known of it by the files in its own folder.
running_job() {
  belay up --nodes 2 --slots 2 >/dev/null || return 1
  local job f
  job=$(cd "$SCRATCH" && belay submit job.yaml)
  until_true 20 job_is "$job" running || return 1
  scratch=$(for f in "$BELAY_DIR"/agents/*/attempts/*/state.json; do json .scratch <"$f"; done)
  agents=$(pids_in "$BELAY_DIR"/agents/*/agent.pid)
  shims=$(pids_in "$BELAY_DIR"/agents/*/attempts/*/shim.pid)
  ranks=$(for f in "$BELAY_DIR"/agents/*/attempts/*/state.json; do json .ranks.0.pid <"$f"; json .ranks.1.pid <"$f"; done)
  belayd=$(pid_in "$BELAY_DIR/belayd.pid")
}

# --- agents killed
running_job
is "two shims have a scratch folder each, four ranks run" "$(ls -d $scratch | wc -l) $(wc -w <<<"$shims") $(wc -w <<<"$ranks")" "2 2 4"
kill_all $agents
ok "down works with the agents killed" quiet belay down
ok "... and leaves no process" until_true 5 all_gone $agents $shims $ranks $belayd
ok "... and no scratch folder" none_exists $scratch
rm -rf "${SCRATCH:?}/cluster"

# --- agents, shims and belayd killed, so that nobody is left who would clean up
running_job
kill_all $agents $shims $belayd
ok "down works with everything killed" quiet belay down
ok "... and leaves no process" until_true 5 all_gone $agents $shims $ranks $belayd
ok "... and no scratch folder" none_exists $scratch
rm -rf "${SCRATCH:?}/cluster"

# --- a shim that has not begun: all there is of it is shim.pid
printf '#!/bin/sh\nexec perl -e "sleep 60" -- "$@"\n' >"$SCRATCH/slow"
chmod 755 "$SCRATCH/slow"
BELAY_SHIM=$SCRATCH/slow belay up --nodes 1 --slots 4 >/dev/null
(cd "$SCRATCH" && belay submit job.yaml) >/dev/null
first=$BELAY_DIR/agents/node0/attempts/1.1
ok "a shim is coming up" until_true 10 test -s "$first/shim.pid"
agents=$(pids_in "$BELAY_DIR/agents/node0/agent.pid") shims=$(pids_in "$first/shim.pid")
kill_all $agents
ok "down works with the agent killed then" quiet belay down
ok "... and leaves no process" until_true 5 all_gone $agents $shims
kill_all $shims
rm -rf "${SCRATCH:?}/cluster"

# --- `belay up` killed while belayd comes up
mkdir "$SCRATCH/bin"
cp "$(command -v belay)" "$SCRATCH/bin/belay"
cp "$SCRATCH/slow" "$SCRATCH/bin/belayd"
"$SCRATCH/bin/belay" up --nodes 1 >/dev/null 2>&1 & up=$!
ok "a belayd that is coming up is on record" until_true 5 test -s "$BELAY_DIR/belayd.pid"
belayd=$(pids_in "$BELAY_DIR/belayd.pid")
kill9 "$up"
wait "$up" 2>/dev/null
ok "... and alive" kill -0 "${belayd:-none}"
ok "down works after up was killed" quiet belay down
ok "... and leaves no process" until_true 5 all_gone $belayd
