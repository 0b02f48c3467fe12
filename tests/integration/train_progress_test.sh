#!/usr/bin/env bash
# What a run tells the launcher through the notify socket, and that it trains on when nobody listens.
. "$(dirname "$0")/train_lib.sh"
plan 11

cat >listen.pl <<'END'
use IO::Socket::UNIX; $| = 1;
my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $ARGV[0]) or die $!;
while (defined $s->recv(my $m, 8192)) { $m =~ s/\n/ /g; print "$m\n"; exit if $m =~ /^END/ }
END
perl listen.pl notify.sock >said &
listener=$!
ok "a listener" until_true 10 test -S notify.sock
job_file told
BELAY_NOTIFY_SOCKET=$PWD/notify.sock ranks 2 belay-train told.yaml >out 2>err
is "two ranks train" $? 0
perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Type => SOCK_DGRAM, Peer => "notify.sock")->send("END")'
wait $listener
like "phases" "$(grep -o 'PHASE=[a-z]*' said | uniq | tr '\n' ' ')" 'loading .*training .*checkpointing .*training'
ok "rank 0 announces SIGUSR1" grep -q '^RANK=0 .*CHECKPOINT_ON=SIGUSR1' said
ok "and it alone, so that a request is one save" test "$(grep -c 'CHECKPOINT_ON=SIGUSR1' said)" = 1
like "rank 0 tells all of a step" "$(grep '^RANK=0 .*STEP=24 ' said)" 'STEPS=24 LOSS=[0-9.]+ TOKENS=12288 TOKENS_PER_SECOND=[0-9.e+]+ MFU=[0-9.e-]+ COMPUTE_MS=[0-9.e-]+ WAIT_MS='
like "rank 1 tells its steps" "$(grep '^RANK=1 .*STEP=[0-9]* ' said)" 'COMPUTE_MS='
ok "the loss is the one of metrics.csv" perl -e 'exit !(abs($ARGV[0] - $ARGV[1]) < 1e-7)' "$(grep -o 'STEP=24 .*LOSS=[0-9.]*' said | head -1 | sed 's/.*LOSS=//')" "$(tail -1 told/metrics.csv | cut -d, -f2)"
is "every checkpoint is staged, then durable" "$(grep -oE 'CHECKPOINT_(STAGED|DURABLE)=[0-9]+' said | tr '\n' ' ')" "$(for s in 5 10 15 20 24; do printf 'CHECKPOINT_STAGED=%d CHECKPOINT_DURABLE=%d ' $s $s; done)"
is "with its size" "$(grep -o 'CHECKPOINT_BYTES=[0-9]*' said | tail -1)" "CHECKPOINT_BYTES=$(cat told/step-00000024/*.safetensors | wc -c)"
job_file alone
ok "a socket that is gone does not matter" to out2 env BELAY_NOTIFY_SOCKET="$PWD/notify.sock" belay-train alone.yaml
