#!/usr/bin/env bash
# Both architectures learn real text: the loss falls from that of a guess to well below what the frequencies of letters alone allow.
. "$(dirname "$0")/train_lib.sh"
plan 6
entropy=$(perl -0777 -ne '$n{$_}++ for split //; $t = length; $e -= $_ / $t * log($_ / $t) for values %n; print $e' corpus.txt)
diag "entropy of a letter: $entropy nats"
for arch in gpt2 llama; do
  job_file $arch $arch
  sed -i 's/hidden: 32/hidden: 64/; s/steps: 24/steps: 200/; s/lr: 1e-3/lr: 3e-3/; s/every: 5/every: 200/' $arch.yaml
  ok "$arch trains" to out.$arch belay-train $arch.yaml
  ok "$arch begins with a guess (ln 256)" perl -F, -lane 'if ($F[0] eq 1) { print "# first loss $F[1]"; exit !(abs($F[1] - log 256) < 0.15) }' $arch/metrics.csv
  ok "$arch has learned" perl -F, -slane '$n++, $s += $F[1] if $F[0] > 190; END { $s /= $n; print "# last losses $s"; exit !($s < $limit - 0.2) }' -- -limit="$entropy" $arch/metrics.csv
done
