#!/usr/bin/env bash
# belay-shim alone: tests/programs/shim_driver plays the agents and the controller, two shims pretend to be two nodes.
. "$(dirname "$0")/../lib.sh"
: "${BELAY_TEST_PROGRAMS:?set BELAY_TEST_PROGRAMS to the folder of the built test programs (make check does)}"
SOURCES=$(cd "$(dirname "$0")/../programs" && pwd)
PROGRAMS=$BELAY_TEST_PROGRAMS PROBE="/bin/sh $SOURCES/rank_probe.sh"
chmod 755 "$SCRATCH"
T= OUT= DRIVER=

FAILED_BEFORE=0
show_run() { # what a reader of a failed run wants to see, once: the newest run before the failure
  [ "$TAP_FAILED" != "$FAILED_BEFORE" ] && tail -n 30 "$OUT" "$T"/node*/attempts/*/shim.log 2>/dev/null | sed 's/^/# /' >&2
  FAILED_BEFORE=$TAP_FAILED
}
fresh() { show_run; T=$(mktemp -d "$SCRATCH/run-XXXXXX"); chmod 755 "$T"; mkdir -m 777 "$T/m"; OUT=$T/out; }
drive() { # drive [OPTIONS] -- COMMAND: to the end
  timeout 90 "$PROGRAMS/shim_driver" --shim "$BELAY_BIN/belay-shim" --dir "$T" "$@" >"$OUT" 2>&1
}
drive_on() { # in the background
  timeout 90 "$PROGRAMS/shim_driver" --shim "$BELAY_BIN/belay-shim" --dir "$T" "$@" >"$OUT" 2>&1 & DRIVER=$!
}
join_driver() { wait "$DRIVER"; }
rank() { sed -n "s/^rank $1 //p" "$OUT" | tail -n1; }
log_of() { cat "$T"/node*/logs/7/1/"$(printf 'rank-%05d' "$1")".*.log; }
logs() { cat "$T"/node*/logs/7/1/*.log; }
token() { sed -n 's/.*"token": *"\([0-9a-f]*\)".*/\1/p' "$T/node0/attempts/7.1/order.json"; }
left() { processes_with "BELAY_TOKEN=$(token)" 2>/dev/null | wc -l; }
none_left() { [ "$(left)" = 0 ]; }
leftovers() { # scratch folders and cgroups of this run, from its state files
  local f p
  for f in "$T"/node*/attempts/7.1/state.json; do
    for p in "$(json scratch <"$f")" "$(json cgroup <"$f")"; do [ ! -e "$p" ] || echo "$p"; done
  done
}
heard() { grep -qE -- "$1" "$OUT" 2>/dev/null; }

plan 52

fresh; drive --nodes 2 --ranks 2 -- "$PROGRAMS/mpi_ring" 4; rc=$?
is "an MPI program over two shims ends well" "$rc" 0 || diag "$(cat "$OUT"; logs; tail -n 20 "$T"/node*/attempts/7.1/shim.log)"
is "all four ranks are one world and share memory within a node" "$(logs | grep -c 'of 4 sum 10 shared 2 ok')" 4
is "ranks are seen to connect and finalize" "$(grep -c 'code=0 signal=0 connected=1 finalized=1 why=finished' "$OUT")" 4
is "nothing is left in /dev/shm or the cgroups" "$(leftovers)" ""

fresh; drive --nodes 3 --ranks 1 -- "$PROGRAMS/mpi_ring" 3
is "three nodes" "$(logs | grep -c 'of 3 sum 6 shared 1 ok')" 3

fresh; drive --nodes 2 --ranks 2 --env EMU_DEVICES=4 --env "COMM_CHECK_DEVICE=$(realpath "$BELAY_BIN/../emu/lib/libbelay_cuda.so")" \
  --env BELAY_COMM_TIMEOUT=60 -- "$PROGRAMS/comm_check" --lost none
is "ids of NCCL's communicators, which ranks put one after another, go from node to node" "$(grep -c 'code=0 .*finished' "$OUT")" 4
is "without a word" "$(logs)" ""

fresh; drive --nodes 3 --ranks 1 --env OMPI_MCA_pmix_base_async_modex=1 --env OMPI_MCA_pmix_base_collect_data=0 -- "$PROGRAMS/mpi_ring" 3
is "and with direct modex, routed through the node between" "$(logs | grep -c 'of 3 sum 6 shared 1 ok')" 3

fresh; drive_on --nodes 2 --ranks 2 --on "$T/now" stop:200 -- "$PROGRAMS/mpi_ring" 4 abort 1 9
until_true 30 heard '^node0 .*1:exited'; touch "$T/now"; join_driver
like "MPI_Abort ends the rank that called it, with its code" "$(rank 1)" 'code=9 signal=0 connected=1 finalized=0 why=called MPI_Abort\(9\)'
like "the others are ended by the order" "$(rank 3)" 'signal=(15|9) .* as ordered'
ok "an aborted job leaves no process" none_left

fresh; drive_on --nodes 2 --ranks 2 --on "$T/now" kill -- "$PROGRAMS/mpi_ring" 4 leave 2 0
until_true 30 heard '^node1 .*2:exited'; touch "$T/now"; join_driver
like "a rank that leaves MPI with 0 is seen not to have finalized" "$(rank 2)" 'code=0 signal=0 connected=1 finalized=0'
is "nothing is left after a kill" "$(leftovers)$(left)" 0

fresh; PMIX_OUTER=1 OMPI_OUTER=2 BELAY_OUTER=3 drive --nodes 2 --ranks 2 --cwd /tmp --env JOBVAR=seen --env BELAY_TOKEN=forged -- $PROBE env "$T/m"
env2=$(log_of 2)
for line in RANK=2 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 NODE_RANK=1 MASTER_ADDR=127.0.0.1 BELAY_JOB_ID=7 BELAY_ATTEMPT=1 \
  BELAY_NODE=node1 BELAY_SLOT=0 OMP_NUM_THREADS=1 JOBVAR=seen "cwd /tmp" "stdin /dev/null" "job file: name: drive" "BELAY_TOKEN=$(token)"; do
  grep -qxF "$line" <<<"$env2" || { diag "missing: $line"; env_bad=1; }
done
is "a rank finds what it is promised in its environment" "${env_bad:-0}" 0
is "an outer launcher's variables are not passed on" "$(grep -c OUTER <<<"$env2")" 0
is "all ranks have one MASTER_PORT" "$(logs | grep '^MASTER_PORT=' | sort -u | wc -l)" 1
like "it is from 20000 to 29999" "$(logs | grep '^MASTER_PORT=' | head -n1)" '=2[0-9]{4}$'
is "stdout and stderr come in order" "$(tail -n 3 <<<"$env2" | tr '\n' ' ')" "err out err2 "
like "a rank leads its session" "$(grep '^session' <<<"$env2")" '^session ([0-9]+) \1$'

fresh; drive --nodes 2 --ranks 2 --device gpu --env OMP_NUM_THREADS=3 -- $PROBE env "$T/m"
is "a GPU rank sees its slot's device, and the job's env wins" "$(log_of 3 | grep -cxE 'CUDA_VISIBLE_DEVICES=1|OMP_NUM_THREADS=3')" 2

fresh; drive --nodes 2 --ranks 2 -- $PROBE codes
like "exit 0" "$(rank 0)" 'exited .*code=0 signal=0 .*why=finished'
like "exit 1" "$(rank 1)" 'code=1 signal=0 .*why=exited with code 1'
like "a segmentation fault" "$(rank 2)" 'code=0 signal=11 .*why=killed by signal 11 \(SIGSEGV\)'
like "exit 93" "$(rank 3)" 'code=93 signal=0'

fresh; drive --nodes 2 --ranks 2 -- $PROBE uneven
is "ranks that end early on one node do not disturb another node of the same host" "$(grep -c 'code=0 signal=0 .*why=finished' "$OUT")" 4

fresh; drive_on --nodes 1 --ranks 2 --on "$T/m.grandchild" stop:100 -- /bin/bash "$SOURCES/stubborn.sh" "$T/m"
join_driver; rc=$?
is "a stop with a stubborn setsid grandchild comes to an end" "$rc" 0
ok "no process is left of it" none_left
ok "the grandchild is gone" test ! -e "/proc/$(cat "$T/m.grandchild")"

fresh; drive_on --nodes 1 --ranks 1 --grace 60000 --on "$T/m.rank" stop --on "$T/now" stop:50 -- /bin/bash "$SOURCES/stubborn.sh" "$T/m"
until_true 10 heard '^node0 stopping'; touch "$T/now"; start=$(date +%s); join_driver
ok "a later order shortens the grace" test "$(($(date +%s) - start))" -lt 20

# tokens of about the same time begin with the same digits
fresh; drive_on --nodes 1 --ranks 1 --on "$T/now" stop:200 -- /bin/sleep 1000
until_true 20 heard '^node0 .*0:running'; first=$T first_out=$OUT
fresh; drive --nodes 1 --ranks 1 -- /bin/true
is "another cluster's attempt of the same number on this host runs" "$(rank 0 | grep -c 'code=0 signal=0')" 1
touch "$first/now"; join_driver
like "and ends no process of the first" "$(sed -n 's/^rank 0 //p' "$first_out" | tail -n1)" ' as ordered'

fresh; drive_on --nodes 2 --ranks 2 --on "$T/m/all" kill-shim:1 --on "$T/gone" kill -- $PROBE wait-all "$T/m"
until_true 20 heard '^action kill-shim'
pids() { sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$T/node1/attempts/7.1/state.json"; }
dead() { local p; for p in $(pids); do [ ! -e "/proc/$p" ] || grep -q '^State:.Z' "/proc/$p/status" || return 1; done; }
ok "ranks die with their shim" until_true 5 dead
is "state.json of the dead shim still says where to clean up" "$(json shim.pid <"$T/node1/attempts/7.1/state.json" | grep -c '^[0-9]')$(test -d "$(json scratch <"$T/node1/attempts/7.1/state.json")" && echo yes)" 1yes
is "and its token" "$(json token <"$T/node1/attempts/7.1/state.json")" "$(token)"
touch "$T/gone"; join_driver
rm -rf "$(json scratch <"$T/node1/attempts/7.1/state.json")"; rmdir "$(json cgroup <"$T/node1/attempts/7.1/state.json")" 2>/dev/null
is "the ranks of the other node were untouched until told" "$(grep -c '^rank [01] exited .*signal=9 .*as ordered' "$OUT")" 2

fresh; drive_on --nodes 1 --ranks 2 --on "$T/m/all" drop:0 --on "$T/now" stop:1000 -- $PROBE wait-all "$T/m"
until_true 20 heard '^action drop'
again() { [ "$(sed -n '/^action drop/,$p' "$OUT" | grep -c '^node0 running')" -ge 1 ]; }
ok "a new agent connection gets the report again" until_true 5 again
touch "$T/now"; join_driver
like "and its orders are followed" "$(rank 1)" 'signal=15 .*why=killed by signal 15 \(SIGTERM\) as ordered'

fresh; drive_on --nodes 1 --ranks 2 --on "$T/m/all" term-shim:0 -- $PROBE wait-all "$T/m"
join_driver
like "SIGTERM to the shim ends the attempt" "$(rank 0)" 'exited .*signal=9'
is "and it says gone before it exits" "$(grep -c '^node0 gone' "$OUT")$(leftovers)$(left)" 10

fresh; drive_on --nodes 1 --ranks 1 --on "$T/m/u.on" checkpoint -- "$PROGRAMS/notify_send" --usr1 "$T/m/u"
join_driver
ok "a checkpoint request reaches the rank that announced SIGUSR1" test -e "$T/m/u"
like "and the rank ends well" "$(rank 0)" 'code=0 signal=0'

fresh; drive --nodes 1 --ranks 1 -- "$PROGRAMS/notify_send" 'STEP=3\nLOSS=2.5\nRANK=0' 'PHASE=training' 'RANK=77\nSTEP=9' '=x\nrubbish'
like "progress is passed on" "$(grep '^progress 0' "$OUT")" '"STEP":"3"'
ok "but not for ranks of other nodes" test "$(grep -c '"9"' "$OUT")" = 0

fresh; drive --nodes 1 --ranks 1 -- "$PROGRAMS/notify_send" --flood 400
is "every checkpoint of a flood is passed on" "$(grep -o '"CHECKPOINT_DURABLE":"[0-9]*"' "$OUT" | sort -u | wc -l)" 40
is "a rank's last words come before its end" "$(grep -E '^progress|^node0 gone' "$OUT" | tail -n 1 | cut -c1-10)" "node0 gone"
ok "the other values are coalesced" test "$(grep -c '^progress' "$OUT")" -le 60

fresh; drive --nodes 1 --ranks 1 -- no-such-program
like "a missing program is refused with a sentence" "$(cat "$OUT")" "refused .*reason: cannot find the job's program no-such-program in PATH"
fresh; drive --nodes 1 --ranks 1 --cwd /no/such/folder -- /bin/true
like "a missing working directory too" "$(cat "$OUT")" 'refused .*reason: cannot enter .*/no/such/folder .*No such file'

fresh; printf '#!/no/such/interpreter\n' >"$T/bad"; chmod +x "$T/bad"; drive --nodes 1 --ranks 1 -- "$T/bad"
like "a program that cannot be exec'd is reported as its rank's end" "$(rank 0)" "exited .*code=127 signal=0 .*why=cannot exec $T/bad: No such file"
"$BELAY_BIN/belay-shim" "$T/node0/attempts/7.1"; rc=$?
is "an attempt is not begun twice" "$rc$(grep -c 'not begun again' "$T/node0/attempts/7.1/shim.log")$(json phase <"$T/node0/attempts/7.1/state.json")" 11gone

if [ "$(id -u)" = 0 ]; then
  fresh; drive --nodes 2 --ranks 2 --uid 65534 --gid 65534 --cwd /tmp -- "$PROGRAMS/mpi_ring" 4
  if [ "$(grep -c refused "$OUT")" -gt 0 ]; then skip "MPI as another user" "nobody cannot reach $PROGRAMS"
  else is "MPI as another user" "$(logs | grep -c 'of 4 sum 10 shared 2 ok')" 4; fi
  fresh; drive --nodes 1 --ranks 1 --uid 65534 --gid 65534 --cwd /tmp -- /bin/sh -c 'id -u; id -g; id -G; echo $HOME; cat "$BELAY_JOB_FILE"; touch "$(dirname "$BELAY_JOB_FILE")/mine" && echo writable'
  is "ranks run as the job's user, whose scratch folder it is" "$(log_of 0 | tr '\n' ' ')" "65534 65534 65534 /nonexistent name: drive writable "
else
  skip "MPI as another user" "not root"; skip "ranks run as the job's user" "not root"
fi
