#!/usr/bin/env bash
# A disk that is full, broken or read-only costs a save, and nothing else: training goes on, each save that failed is told once, nothing is left of it, and
# the next one works when the disk does.
if [ -z "${OWN_MOUNTS:-}" ]; then # a small tmpfs of its own; without the right to mount one, only the calls that fail by themselves
  for own in "unshare --mount" "unshare --map-root-user --mount"; do
    $own mount -t tmpfs -o size=64k none /mnt 2>/dev/null && OWN_MOUNTS=1 exec $own bash "$0" "$@"
  done
  OWN_MOUNTS=no
fi
. "$(dirname "$0")/train_lib.sh"
plan 37

failed() { grep -c 'step [0-9]* cannot be saved' "$1.err"; }
told_once() { [ -z "$(grep -o 'step [0-9]* cannot be saved' "$1.err" | sort | uniq -d)" ]; }
nothing_left() { [ -z "$(ls -A "$1" | grep '^\.')" ]; }

job_file straight1; job_file straight2
ok "a run on a good disk" to out belay-train straight1.yaml
ok "two ranks on a good disk" to out ranks 2 belay-train straight2.yaml

# --- a disk that is full for a while
room() { df --output=avail -k full | tail -1; }
failed_again() { [ "$(failed full)" -ge $(($1 + 3)) ]; }
saved_again() { grep -q 'is saved: checkpoints can be written again' full.err; }
if [ "$OWN_MOUNTS" = 1 ]; then
  job_file full
  mkdir full
  mount -t tmpfs -o size=2m none full
  belay-train full.yaml --set train.steps=1000000 --set checkpoint.every=50 --set train.optimizer.schedule=constant >full.out 2>full.err &
  pid=$!
  until_true 30 test -e full/latest
  dd if=/dev/zero of=full/filler bs=4k 2>/dev/null
  ok "full disk: saves fail, and training goes on" until_true 60 failed_again 0
  like "full disk: the reason is told" "$(cat full.err)" 'step [0-9]* cannot be saved: cannot (write|make) .*: No space left on device'
  ok "full disk: each is told once" told_once full
  ok "full disk: nothing of them takes the room" until_true 10 nothing_left full
  rm full/filler
  ok "room again: the next save works, and that is said" until_true 60 saved_again
  kill -TERM $pid
  wait $pid
  is "room again: it ends well" "$?" 0
  ok "all rows are there, also those of the time without room" complete full "$(rows full)"
  ok "nothing is left" nothing_left full
  belay-train full.yaml --set train.steps=1000000 --set checkpoint.every=50 --set train.optimizer.schedule=constant >full.out2 2>&1 &
  pid=$!
  until_true 30 grep -q 'resuming from step' full.out2
  kill -TERM $pid
  wait $pid
  is "and it goes on from there" "$(grep -o 'resuming from step [0-9]*' full.out2)" "resuming from step $(sed -n 's/^stopped by request after step //p' full.out)"
  umount -l full
else
  for what in fails reason once nothing again ends rows left on; do skip "full disk: $what" "no right to mount a small tmpfs here"; done
fi

# --- calls that fail: RANKS, of which the last is struck, RULE, ERROR, its words. The save of step 10 fails, those of 5, 15, 20 and 24 do not.
number=0
while read -r n rule error words; do
  name="fault$((number += 1))"
  job_file $name
  faults $name "${rule//,/ }"
  run=(env "${FAULTFS[@]}" BELAY_FAULTFS_RANK=$((n - 1)) belay-train $name.yaml --set checkpoint.busy=wait)
  if [ "$n" -eq 1 ]; then "${run[@]}" >$name.out 2>$name.err; else ranks "$n" "${run[@]}" >$name.out 2>$name.err; fi
  is "$error, $n rank(s), $rule: the others are saved" "$? $(steps_of $name)$(failed $name)" "0 15 20 24 1"
  like "$error: the sentence" "$(cat $name.err)" "step 10 cannot be saved: .*: $words"
  ok "$error: nothing is left, and the losses are the same" eval "nothing_left $name && [ \"\$(losses $name)\" = \"\$(losses straight$n)\" ]"
done <<'END'
1 fsync:/.step-00000010.:1:EIO EIO Input/output error
1 write:/.step-00000010.:1:EDQUOT EDQUOT Disk quota exceeded
1 mkdir:/.step-00000010.:1:EROFS EROFS Read-only file system
1 rename:/step-00000010:1-2:EROFS EROFS Read-only file system
1 close:/.step-00000010.:1:EIO EIO Input/output error
2 fsync:/.step-00000010.:1:EIO EIO Input/output error
END

# --- whoever started it is told, with the reason, once
cat >listen.pl <<'END'
use IO::Socket::UNIX;
my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "notify.sock") or die "notify.sock: $!";
$| = 1;
while (defined $s->recv(my $m, 8192)) { $m =~ s/\n/ /g; print "$m\n"; exit if $m =~ /^END/ }
END
perl listen.pl >heard &
listener=$!
until_true 10 test -S notify.sock
job_file told
faults told "fsync:/.step-00000010.:1:EIO"
env "${FAULTFS[@]}" BELAY_NOTIFY_SOCKET="$PWD/notify.sock" belay-train told.yaml --set checkpoint.busy=wait >out 2>&1
perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Type => SOCK_DGRAM, Peer => "notify.sock")->send("END")'
wait $listener
is "what became of each save is told" "$(grep -oE 'CHECKPOINT_(FAILED|DURABLE)=[0-9]+' heard | tr '\n' ' ')" \
  "$(for s in DURABLE=5 FAILED=10 DURABLE=15 DURABLE=20 DURABLE=24; do printf 'CHECKPOINT_%s ' $s; done)"
like "with the reason" "$(cat heard)" 'CHECKPOINT_FAILED=10 CHECKPOINT_WHY=.*Input/output error'

job_file short
faults short "write:/.step-:1-:short"
ok "writes that are cut short are completed" to out env "${FAULTFS[@]}" belay-train short.yaml
ok "and what they wrote is good" to out2 belay-train short.yaml --set train.steps=25
like "whole" "$(cat out2)" 'resuming from step 24'
job_file rows
faults rows "write:metrics.csv:4-12:ENOSPC"
env "${FAULTFS[@]}" belay-train rows.yaml --set checkpoint.busy=wait >rows.out 2>rows.err
is "rows of metrics.csv that cannot be written wait: said once" "$? $(grep -c 'warn: cannot write to rows/metrics.csv' rows.err)" "0 1"
ok "and all are there in the end" complete rows 24
job_file dark
faults dark "*:step-00000015:1-:EROFS *:step-0000002:1-:EROFS"
env "${FAULTFS[@]}" belay-train dark.yaml --set checkpoint.busy=wait >dark.out 2>dark.err
is "read-only for good: the run ends with 1, its checkpoints are there" "$? $(steps_of dark)" "1 5 10 "
