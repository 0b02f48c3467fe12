#!/usr/bin/env bash
# belay-train generate: text from checkpoints of runs here, the same for one seed, with and without what is kept, alone and in a batch; errors are
# one sentence.
. "$(dirname "$0")/train_lib.sh"

# refuse NAME CODE REGEX ARGUMENT...: generate ends with CODE and one sentence
refuse() {
  local what=$1 code=$2 regex=$3 rc=0; shift 3
  belay-train generate "$@" >refuse.out 2>refuse.err </dev/null || rc=$?
  is "$what: exit code" "$rc" "$code"
  like "$what: sentence" "$(cat refuse.err)" "$regex"
}
refuses() { ! belay-train "$@" >refuse.out 2>refuse.err && grep -q 'is not what it was' refuse.err; }
gen() { belay-train generate "$@" 2>gen.err || { diag "generate $*" "$(cat gen.err)" >&2; return 1; }; }
# lines FILE KEY: a value of each object of a file of JSON lines
lines() { while read -r line; do json "$2" <<<"$line"; done <"$1"; }

# ---- one model of each kind ----
job_file gpt2 gpt2; job_file llama llama; job_file moe llama
sed -i 's/hidden: 32, heads: 4/hidden: 64, heads: 4, kv_heads: 2/; s/steps: 24/steps: 60/; s/lr: 1e-3/lr: 3e-3/' llama.yaml
sed -i 's/context: 32/context: 32, experts: 4, top_k: 2, capacity: 1.5/' moe.yaml
for kind in gpt2 llama moe; do
  ok "$kind trains" to out.$kind belay-train $kind.yaml
  gen --checkpoint $kind --prompt "The lic" --temperature 0 --max-tokens 25 >kept.$kind
  gen --checkpoint $kind --prompt "The lic" --temperature 0 --max-tokens 25 --no-cache >whole.$kind
  ok "$kind: what is kept gives the text that the whole gives" cmp kept.$kind whole.$kind
  is "$kind: 25 bytes and a newline" "$(wc -m <kept.$kind)" 26
  gen --checkpoint $kind --prompt "The lic" --seed 5 --max-tokens 25 --json --logprobs >kept.json
  gen --checkpoint $kind --prompt "The lic" --seed 5 --max-tokens 25 --json --logprobs --no-cache >whole.json
  is "$kind: drawn tokens, too" "$(json .tokens <kept.json)" "$(json .tokens <whole.json)"
  ok "$kind: with the same probabilities" perl -MJSON::PP -e '
    my ($a, $b) = map { local (@ARGV, $/) = $_; decode_json(<>)->{log_probabilities} } @ARGV;
    for (0 .. 24) { my $d = abs($a->[$_] - $b->[$_]); $m = $d if $d > $m } print "# largest difference $m\n"; exit !(@$a == 25 && $m < 1e-4)' kept.json whole.json
done
like "a trained model is not indifferent" "$(gen --checkpoint llama --prompt 'The lic' --temperature 0 --max-tokens 3 --logprobs)" "^[0-9]+	-[0-3]\.[0-9]+	\""

# ---- draws ----
one() { gen --checkpoint llama --prompt "You may" --max-tokens 20 "$@"; }
is "the same seed, the same text" "$(one --seed 3)" "$(one --seed 3)"
ok "another seed, another text" test "$(one --seed 3)" != "$(one --seed 4)"
is "k 1 is the most likely" "$(one --top-k 1 --seed 9)" "$(one --temperature 0)"
is "p 0 is, too" "$(one --top-p 0 --seed 8)" "$(one --temperature 0)"
printf 'A\nYou may\n\tof GNU\nYou may not\n' >prompts.txt
gen --checkpoint llama --batch --prompt-file prompts.txt --samples 3 --seed 3 --max-tokens 20 --json >batch.json
is "every prompt, every sample" "$(lines batch.json .prompt | tr -d '\n') $(lines batch.json .sample | tr -d '\n')" "000111222333 012012012012"
gen --checkpoint llama --batch --prompt-file prompts.txt --samples 3 --seed 3 --max-tokens 20 --json --width 2 >narrow.json
ok "the same in groups of two" cmp batch.json narrow.json
is "and alone" "$(one --seed 3 --json | json .tokens)" "$(lines batch.json .tokens | sed -n 4p)"
is "samples differ" "$(lines batch.json .tokens | sort -u | wc -l)" 12
is "on standard input" "$(gen --checkpoint llama --batch --seed 3 --samples 3 --max-tokens 20 --json <prompts.txt)" "$(cat batch.json)"
is "a checkpoint by its name" "$(one --seed 3 --checkpoint llama/step-00000060)" "$(one --seed 3)"
ok "an older one is another" test "$(one --seed 3 --checkpoint llama/step-00000050)" != "$(one --seed 3)"
is "ids are the text's bytes" "$(one --temperature 0)" "$(gen --checkpoint llama --prompt-ids 89,111,117,32,109,97,121 --max-tokens 20 --temperature 0)"
is "the prompt, when asked for" "$(one --temperature 0 --echo)" "You may$(one --temperature 0)"
ok "bf16" quiet one --precision bf16 --temperature 0
gen --checkpoint llama --prompt-ids 240,159 --temperature 1000 --samples 4 --max-tokens 28 >odd.txt
ok "always UTF-8" iconv -f UTF-8 -t UTF-8 -o /dev/null odd.txt

# ---- a mesh's checkpoint, a tokenizer of its own, and back from Hugging Face's layout ----
job_file mesh llama
sed -i 's/steps: 24/steps: 6/' mesh.yaml
ok "four ranks train" to out.mesh under 4 belay-train mesh.yaml --set parallel.tp=2 --set parallel.pp=2
is "their checkpoint generates" "$(gen --checkpoint mesh --prompt "The lic" --temperature 0 --max-tokens 25)" "$(gen --checkpoint mesh --prompt "The lic" --temperature 0 --max-tokens 25 --no-cache)"
ok "an export" to export.out belay-train export llama --out hf
is "and the text of what was exported" "$(gen --checkpoint hf --tokenizer bytes --prompt "You may" --seed 3 --max-tokens 20)" "$(one --seed 3)"
ok "prepares with a tokenizer of its own" to bpe.out belay-train prepare --out bpe --train-tokenizer 400 corpus.txt
job_file own; sed -i 's/context: 32/context: 32, vocab: 512/; s/path: corpus.txt, tokenizer: bytes/path: bpe, tokenizer: bpe/; s/steps: 24/steps: 6/' own.yaml
ok "trains with it" to out.own belay-train own.yaml
gen --checkpoint own --prompt "" --seed 1 --temperature 50 --max-tokens 31 --ignore-end --json --samples 40 >own.json
is "an empty prompt is the end of text" "$(lines own.json .prompt_tokens | sort -u)" "[399]"
ok "no token that the tokenizer has not" perl -MJSON::PP -ne 'for (@{ decode_json($_)->{tokens} }) { exit 1 if $_ >= 400 }' own.json

ok "a copy of it elsewhere" cp -r bpe copy
is "is the same to the checkpoint" "$(gen --checkpoint own --tokenizer copy --prompt A --seed 2)" "$(gen --checkpoint own --prompt A --seed 2)"
ok "an import" to import.out belay-train import own --out imported
is "carries it" "$(json .model.tokenizer_fingerprint <imported/manifest.json)" "$(json .model.tokenizer_fingerprint <own/step-00000006/manifest.json)"

# ---- errors ----
ok "another tokenizer of as many tokens" to bpe2.out belay-train prepare --out bpe2 --train-tokenizer 400 /usr/share/common-licenses/GPL-2
refuse "another one of that size" 1 "the tokenizer bpe2 is not the one .* which was $PWD/bpe, or a copy" --checkpoint own --tokenizer bpe2 --prompt x
mv bpe/tokenizer.json kept.json; cp bpe2/tokenizer.json bpe/
refuse "the tokenizer was replaced" 1 "$PWD/bpe is not what it was .*put back" --checkpoint own --prompt x
ok "export refuses it, too" refuses export own --out never
mv kept.json bpe/tokenizer.json
refuse "no checkpoint" 2 'needs --checkpoint PATH' --prompt x
refuse "a folder without one" 1 'in is no checkpoint|is no checkpoint' --checkpoint . --prompt x
refuse "an option with a letter too much" 2 'error: unknown option --tokeniser \(did you mean --tokenizer\?\); see belay-train generate --help' --checkpoint llama --tokeniser bytes
refuse "a part of an option's name" 2 'error: unknown option --tokens \(did you mean --max-tokens\?\)' --checkpoint llama --tokens=5
refuse "one dash" 2 'error: unknown option -prompt \(did you mean --prompt\?\)' --json -prompt x
refuse "a letter" 2 'error: unknown option -x; see' -x
refuse "an option like none" 2 'error: unknown option --zebra; see' --zebra
refuse "an option without its value" 2 'error: --checkpoint wants a value; see' --json --checkpoint
refuse "a value where none belongs" 2 'error: --json takes no value, but has one in "--json=yes"' --json=yes --checkpoint llama
refuse "the beginning of several" 2 'error: --top may be any of --top-k, --top-p: write more of it' --top 3
refuse "an option without sense" 2 'must be a whole number' --checkpoint llama --prompt x --max-tokens many
refuse "a probability above 1" 2 'top-p must be' --checkpoint llama --prompt x --top-p 1.5
refuse "more than the context" 1 '7 tokens and 26 more do not fit the model.s context of 32' --checkpoint llama --prompt "The lic" --max-tokens 26
refuse "a prompt as long as the context" 1 'do not fit' --checkpoint llama --prompt "$(head -c 32 corpus.txt)"
refuse "an empty prompt of bytes" 1 'no end of text to begin after' --checkpoint llama --prompt ""
refuse "an id beyond the vocabulary" 1 'outside of the model.s vocabulary' --checkpoint llama --prompt-ids 256
refuse "another tokenizer" 1 'the tokenizer bpe is not the one that the model was trained with: .* which was bytes' --checkpoint llama --tokenizer bpe --prompt x
refuse "one with more tokens than the model of who knows what" 1 'has 4[0-9]+ tokens, the model knows 256' --checkpoint hf --tokenizer bpe --prompt x
refuse "two prompts" 2 'exclude each other' --checkpoint llama --prompt x --prompt-ids 1
flip=llama/step-00000060/rank-00000.safetensors
printf '\377' | dd of=$flip bs=1 seek=$(($(stat -c %s $flip) / 2)) conv=notrunc status=none
refuse "a damaged checkpoint" 1 'step-00000060' --checkpoint llama/step-00000060 --prompt x
plan "$TAP_COUNT"
