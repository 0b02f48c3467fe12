#!/usr/bin/env bash
# Images in memory outlive their ranks: a killed rank finds its image in the shim of its node, ranks of a lost node get theirs from the buddy, also when
# controller and agents were killed in between; and nothing is left once the job is over.
. "$(dirname "$0")/../lib.sh"
plan 28
cd "$SCRATCH" || exit 1
name=img-$$ # of the memory files, so that other runs of this test are not taken for it
mkdir meet

up() { quiet belay up --nodes 4 --slots 1 --racks 2; }
noted() { [ -e "meet/$1.0.$2" ] && [ -e "meet/$1.1.$2" ] && [ -e "meet/$1.2.$2" ]; } # noted ATTEMPT WHAT: by all ranks
where() { cat "meet/$1.$2.got"; } # where ATTEMPT RANK
node_of() { job "$id" ".placement.$1.node"; }
rank_pid() { belay describe "$id" -o json | perl -MJSON::PP -e 'local $/; my ($a) = grep { $_->{attempt} == $ARGV[0] } @{decode_json(<STDIN>)->{attempts}}; my ($r) = grep { $_->{rank} == $ARGV[1] } @{$a->{ranks}}; print "$r->{pid}\n"' "$1" "$2"; }
folders() { ls -d "$BELAY_DIR"/agents/*/attempts/"$id".* 2>/dev/null; } # of attempts whose shims are there
folders_of() { ls -d "$BELAY_DIR"/agents/*/attempts/"$id.$1" 2>/dev/null | wc -l; }
no_folders_of() { [ "$(folders_of "$1")" = 0 ]; }
no_folders() { [ -z "$(folders)" ]; }
shim_of() { json .shim.pid <"$BELAY_DIR/agents/$1/attempts/$id.$2/state.json"; } # shim_of NODE ATTEMPT
holders() { find /proc/[0-9]*/fd -lname "/memfd:$name-*" 2>/dev/null | cut -d/ -f3 | sort -u; } # processes that have one of the images
no_holders() { [ -z "$(holders)" ]; }
ended() { [ "$(belay describe "$id" -o json | perl -MJSON::PP -e 'local $/; my ($a) = grep { $_->{attempt} == $ARGV[0] } @{decode_json(<STDIN>)->{attempts}}; print $a->{state} // ""' "$1")" = ended ]; }

ok "four nodes in two racks" up || exit 1
cat >job.yaml <<Y
name: memory
run:
  ranks: 3
  command: ["$BELAY_TEST_PROGRAMS/memory_rank", "$SCRATCH/meet", "$name", "3000000"]
resources: {device: cpu, cpus: 1, memory: 64MiB}
checkpoint: {memory: {every: 1}}
restart: {max: 9, backoff: 500ms}
limits: {grace: 1s}
Y
id=$(belay submit job.yaml)
ok "every rank's images are held on its node and on the buddy's" until_true 60 noted 1 held

# --- a rank is killed
ok "rank 1 is killed" kill9 "$(rank_pid 1 1)"
ok "its attempt ends" until_true 30 ended 1
ok "the next attempt holds newer images" until_true 60 noted 2 held
is "every rank had its image from the memory of its node" "$(where 2 0),$(where 2 1),$(where 2 2)" here,here,here
ok "the shims of the first attempt have gone" until_true 20 no_folders_of 1

# --- a whole node is lost
lost=$(node_of 2)
agent=$(json .pid <"$BELAY_DIR/agents/$lost/agent.pid") shim=$(shim_of "$lost" 2) rank=$(rank_pid 2 2)
ok "node of rank 2: the agent is killed" kill9 "$agent"
ok "its shim is killed" kill9 "$shim"
kill9 "$rank" 2>/dev/null # dies with its shim
ok "the next attempt holds newer images" until_true 90 noted 3 held
ok "rank 2 runs on another node" test "$(node_of 2)" != "$lost"
is "ranks 0 and 1 had their images from the memory of their nodes" "$(where 3 0),$(where 3 1)" here,here
like "rank 2 had its image from the buddy of its lost node" "$(where 3 2)" "^node [01]$"
ok "the lost node comes back" up
ok "nothing of the second attempt is left" until_true 20 no_folders_of 2

# --- controller and agents are killed while nothing of the job but its memory is there
ok "rank 0 is killed" kill9 "$(rank_pid 3 0)"
ok "its attempt ends" until_true 30 ended 3
belayd=$(json .pid <"$BELAY_DIR/belayd.pid")
ok "the controller is killed" kill9 "$belayd"
for node in node0 node1 node2 node3; do
  kill9 "$(json .pid <"$BELAY_DIR/agents/$node/agent.pid")"
done
ok "a controller and agents are started again" up
ok "the next attempt holds newer images" until_true 90 noted 4 held
is "every rank had its image from the memory of its node" "$(where 4 0),$(where 4 1),$(where 4 2)" here,here,here
ok "the shims of the third attempt have gone" until_true 20 no_folders_of 3

# --- the job is over
ok "there are images in memory" test -n "$(holders)"
ok "rank 2 is killed" kill9 "$(rank_pid 4 2)"
ok "its attempt ends" until_true 30 ended 4
ok "the job is cancelled" quiet belay cancel "$id"
ok "no shim of it is left" until_true 20 no_folders
ok "and no image" until_true 20 no_holders
