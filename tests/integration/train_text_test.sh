#!/usr/bin/env bash
# From text to text, as examples/shakespeare-like.yaml does it, with a smaller model: gather, prepare with a tokenizer trained on the text, train on four
# ranks (tp 2, dp 2), and generate words. The other examples are valid, and their meshes run.
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
. "$(dirname "$0")/train_lib.sh"
plan 19

ok "text is gathered" to out bash "$examples/gather-text.sh" text
ok "enough of it" test "$(cat text/* | wc -c)" -gt 1000000
ok "it becomes tokens" to out belay-train prepare --out tokens --train-tokenizer 512 text
cp "$examples/shakespeare-like.yaml" .
small=(--set 'train.model={arch: llama, layers: 2, hidden: 128, heads: 4, context: 64, vocab: 512}' --set train.optimizer.lr=3e-3 --set train.steps=240)
ok "four ranks train" to out under 4 belay-train shakespeare-like.yaml "${small[@]}"
ckpt=ckpt-shakespeare-like
ok "every step is there once" complete $ckpt 240
held() { perl -F, -lane 'if ($. == 1) { ($i) = grep { $F[$_] eq "held_loss" } 0 .. $#F } elsif ($F[$i] ne "") { print $F[$i] }' $ckpt/metrics.csv; }
diag "held-out losses: $(held | tr '\n' ' ')"
is "five evaluations" "$(held | wc -l)" 5
ok "the held-out loss falls each time" test "$(held)" = "$(held | sort -gr)"
ok "by more than half a nat, and far below a guess (ln 512 = 6.24)" perl -e 'exit !($ARGV[0] - $ARGV[-1] > 0.5 && $ARGV[-1] < 5)' $(held)

# --- words: letters between spaces that the text has, too, three or more of them
ok "it generates" to said belay-train generate --checkpoint $ckpt --prompt "This module" --max-tokens 50 --samples 8 --temperature 0.3
words() { tr -cs A-Za-z '\n' | grep -xE '[A-Za-z]{3,}' | tr A-Z a-z; }
cat text/* | words | sort | uniq -c | awk '$1 >= 10 { print $2 }' | sort >known
words <said | sort >found
diag "$(wc -l <found) words, $(join found known | wc -l) of them of the text, such as: $(join found known | sort -u | head -12 | tr '\n' ' ')"
ok "words" test "$(wc -l <found)" -ge 60
ok "many of them words of the text" test $((3 * $(join found known | wc -l))) -gt "$(wc -l <found)"

# --- the other examples: three steps of each, on fewer layers and shorter sequences
try() { # try NAME RANKS ARGUMENT...
  local name=$1 n=$2; shift 2
  ok "examples/$name.yaml is valid" to out belay validate "$examples/$name.yaml"
  ok "examples/$name.yaml runs" to out under "$n" belay-train "$examples/$name.yaml" --set train.steps=3 --set train.optimizer.warmup=1 --set train.model.context=32 --set checkpoint.directory="$name" "$@"
}
try pipeline 4
try experts 2
try bf16 4 --set train.optimizer.decay=1
try long-context 2
