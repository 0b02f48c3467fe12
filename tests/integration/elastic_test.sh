#!/usr/bin/env bash
# A training job with a range of dp loses a node for which there is no other: it goes on with fewer replicas and the same global batch, and
# grows again when the node is back. Every step is there once, with the loss of a run that lost nothing, but for sums in another order.
. "$(dirname "$0")/../lib.sh"
cd "$SCRATCH" || exit 1
cat /usr/share/common-licenses/{GPL-3,Apache-2.0} >corpus.txt

# Both are ended when enough has been seen, so that no timing decides whether they live long enough.
spec() { # spec NAME DP
  cat <<Y
name: $1
train:
  model: {arch: gpt2, layers: 2, hidden: 64, heads: 4, context: 64}
  data: {path: corpus.txt, tokenizer: bytes}
  steps: 1000000
  batch: {global: 12, micro: 1}
  optimizer: {lr: 1e-4, warmup: 0}
  seed: 7
parallel: {dp: $2, zero: 1, regrow: 1s}
resources: {device: cpu, cpus: 1}
checkpoint: {directory: ckpt-$1, every: 20, keep: 2}
restart: {max: 0}
Y
}
start() { spec "$1" "$2" >"$1.yaml"; belay submit "$1.yaml"; }
attempt_runs() { [ "$(job "$1" .attempt)" -ge "$2" ] && job_is "$1" running && [ "$(attempt_step "$1")" -ge "$3" ]; }
attempt_step() { # the newest step of the newest attempt, 0 = none
  local step; step=$(belay describe "$1" -o json | json ".attempts.$(($(job "$1" .attempt) - 1)).to_step")
  [ "$step" = null ] && echo 0 || echo "$step"
}
rows() { tail -n +2 "ckpt-$1/metrics.csv" 2>/dev/null | wc -l; }
rows_at_least() { [ "$(rows "$1")" -ge "$2" ]; }
end_job() { belay cancel "$1" >/dev/null && until_true 30 job_ended "$1"; }

lose_node() { # lose_node JOB NODE: its agent, its shim and the ranks there, in this order
  local ranks shim
  ranks=$(belay describe "$1" -o json | perl -MJSON::PP -e 'local $/; my $d = decode_json(<STDIN>);
    print "$_->{pid}\n" for grep { $_->{node} eq $ARGV[0] } @{$d->{attempts}[-1]{ranks}}' "$2")
  shim=$(json .shim.pid <"$BELAY_DIR/agents/$2/attempts/$1.$(job "$1" .attempt)/state.json")
  kill9 "$(json .pid <"$BELAY_DIR/agents/$2/agent.pid")" && kill9 "$shim" || return 1
  for pid in $ranks; do kill9 "$pid" 2>/dev/null; done # the shim's end may have ended them
  return 0
}

like "validate says which sizes there are" "$(spec x 2..5 >x.yaml; belay validate x.yaml)" \
  'dp 4\), or fewer: dp may be 4, 3, 2\.$'
spec y 7..11 | sed 's/global: 12/global: 16/' >y.yaml
belay validate y.yaml >out 2>err
is "a range without one is refused with the nearest" \
  "$? $(grep -c 'none of 7..11 is possible: 16 sequences .* the nearest that would be: 4 and 16' err)" "2 0"

ok "a cluster of 4 nodes with 1 slot each" quiet belay up --nodes 4 --slots 1 || exit 1
id=$(start elastic 2..4)
until_true 60 attempt_runs "$id" 1 25
is "it starts with all four" "$(job "$id" .ranks)" 4
node=$(job "$id" .placement.2.node)
ok "$node is lost" lose_node "$id" "$node"
until_true 60 attempt_runs "$id" 2 1
is "it goes on with three" "$(job "$id" .ranks) $(job "$id" .nodes)" "3 3"
is "none of them there" "$(job "$id" .placement | grep -c "\"$node\"")" 0
like "an event says why" "$(belay events --job "$id")" "continues with dp 3 instead of 4: $node is down, no spare is free"
like "status says so" "$(job "$id" .reason)" '3 ranks run on 3 nodes, with dp 3 of up to 4: it grows when there is room'
like "and why" "$(belay why "$id")" 'is running: 3 ranks run on 3 nodes, with dp 3 of up to 4: it grows when there is room'
like "and describe" "$(belay describe "$id")" 'with dp 3 of up to 4'
is "nothing is charged" "$(job "$id" .state)" running

ok "$node comes back" quiet belay up --nodes 4 --slots 1
until_true 60 attempt_runs "$id" 3 20
is "it runs on all four again" "$(job "$id" .ranks) $(job "$id" .nodes)" "4 4"
like "an event says why" "$(belay events --job "$id")" "grows from dp 3 to 4: $node is back"
is "that attempt ended for it" "$(belay describe "$id" -o json | json .attempts.1.outcome)" resized
like "which describe shows" "$(belay describe "$id")" 'resized'
like "it was asked for a checkpoint first" "$(belay events --job "$id")" "there is room for dp 4: job $id is asked for a checkpoint"
ok "it can be ended" end_job "$id"

steps=$(rows elastic)
is "steps 1 to $steps, each once" "$(tail -n +2 ckpt-elastic/metrics.csv | cut -d, -f1 | md5sum)" "$(seq 1 "$steps" | md5sum)"
id=$(start straight 4)
until_true 120 rows_at_least straight "$steps"
ok "a run without a loss" end_job "$id"
close() { # to the straight run's losses, row by row
  paste -d, <(cut -d, -f2 ckpt-elastic/metrics.csv) <(head -n "$((steps + 1))" ckpt-straight/metrics.csv | cut -d, -f2) | tail -n +2 |
    perl -F, -lane '$d = abs($F[0] - $F[1]) / abs($F[1]); $m = $d if $d > $m; $n++;
      END { printf "# largest relative difference %.2g over %d steps\n", $m, $n; exit !($n > 25 && $m <= 1e-6) }'
}
ok "its losses are the same within 1e-6" close
plan "$TAP_COUNT"
