#!/usr/bin/env bash
# belay-train eval: what it measures of a checkpoint is what its run measured, and what the probabilities of a text come to; errors are one sentence.
. "$(dirname "$0")/train_lib.sh"

# refuse NAME CODE REGEX ARGUMENT...: eval ends with CODE and one sentence
refuse() {
  local what=$1 code=$2 regex=$3 rc=0; shift 3
  belay-train eval "$@" >refuse.out 2>refuse.err </dev/null || rc=$?
  is "$what: exit code" "$rc" "$code"
  like "$what: sentence" "$(cat refuse.err)" "$regex"
}
# eval_of KEY ARGUMENT...: a value of what eval --json prints
eval_of() { local key=$1; shift; belay-train eval --json "$@" 2>eval.err | json "$key" || { diag "$(cat eval.err)" >&2; return 1; }; }
# close_to A B LIMIT
close_to() { perl -e 'my ($a, $b, $l) = @ARGV; print "# $a and $b\n"; exit !(abs($a - $b) <= $l)' -- "$@"; }
# held_of FOLDER: the last held-out loss of a run
held_of() { perl -F, -lane 'if ($. == 1) { $F[$_] eq "held_loss" and $c = $_ for 0 .. $#F } else { $v = $F[$c] if length $F[$c] } END { print $v }' "$1/metrics.csv"; }

# ---- against the run's own evaluation ----
for kind in gpt2 llama; do
  job_file $kind $kind
  sed -i "s/tokenizer: bytes/tokenizer: bytes, holdout: 0.1/; s/^  seed: 11/  seed: 11\n  eval: {every: 24, sequences: 37}/" $kind.yaml
  ok "$kind trains" to out.$kind belay-train $kind.yaml
  ok "$kind: the held-out loss of the run" close_to "$(held_of $kind)" "$(eval_of .loss --checkpoint $kind --job $kind.yaml --sequences 37)" 1e-5
done
ok "bf16 is near" close_to "$(eval_of .loss --checkpoint llama --job llama.yaml)" "$(eval_of .loss --checkpoint llama --job llama.yaml --precision bf16)" 0.02

# ---- against probabilities by hand ----
head -c 21 corpus.txt | tr '\n' ' ' >short.txt # one window: each letter after all before it
belay-train generate --checkpoint llama --prompt "$(head -c 1 short.txt)" --temperature 0 --max-tokens 20 --json --logprobs >text.json
perl -MJSON::PP -0777 -e '$o = decode_json(<>); binmode STDOUT; print map { chr } @{ $o->{prompt_tokens} }, @{ $o->{tokens} }' text.json >own.txt
mean=$(perl -MJSON::PP -0777 -e '$o = decode_json(<>); $s -= $_ for @{ $o->{log_probabilities} }; print $s / @{ $o->{log_probabilities} }' text.json)
ok "the loss of a generated text is what its tokens had" close_to "$mean" "$(eval_of .loss --checkpoint llama --data own.txt)" 1e-5
is "of 21 tokens 20 are counted" "$(eval_of .tokens --checkpoint llama --data own.txt)" 20
ok "perplexity is its power" close_to "$(perl -e 'print exp shift' "$mean")" "$(eval_of .perplexity --checkpoint llama --data own.txt)" 1e-3
ok "a byte has its bits" close_to "$(perl -e 'print +(shift) / log 2' "$mean")" "$(eval_of .bits_per_byte --checkpoint llama --data own.txt)" 1e-4

# ---- windows ----
head -c 3000 corpus.txt >some.txt
is "every byte but the first is counted" "$(eval_of .tokens --checkpoint llama --data some.txt)" 2999
is "also with windows that overlap" "$(eval_of .tokens --checkpoint llama --data some.txt --stride 5)" 2999
ok "what has more before it is predicted better" perl -e 'exit !($ARGV[0] > $ARGV[1])' "$(eval_of .loss --checkpoint llama --data some.txt)" "$(eval_of .loss --checkpoint llama --data some.txt --stride 4)"
is "the first windows" "$(eval_of .windows --checkpoint llama --data some.txt --sequences 7)" 7
like "a line for people" "$(belay-train eval --checkpoint llama --data some.txt)" '^llama/step-00000024: loss [0-9.]+, perplexity [0-9.]+, [0-9.]+ bits per byte, over 2999 tokens in 94 windows of 32 '

# ---- a corpus for evaluation alone ----
job_file apart llama
sed -i "s/^  seed: 11/  seed: 11\n  eval: {every: 24, path: some.txt, sequences: 1000}/" apart.yaml
ok "trains beside a corpus of evaluation" to out.apart belay-train apart.yaml
like "says so" "$(cat out.apart)" 'evaluated on 93 of some.txt'
ok "its loss is that of the corpus" close_to "$(held_of apart)" "$(eval_of .loss --checkpoint apart --data some.txt --sequences 93)" 1e-5
ok "as of the job" close_to "$(held_of apart)" "$(eval_of .loss --checkpoint apart --job apart.yaml)" 1e-5
to refuse.out belay-train apart.yaml --set train.eval.path=nowhere.txt
like "a corpus of evaluation that is not there" "$(cat refuse.out)" 'train.eval.path: .*nowhere.txt'

# ---- another tokenizer: text becomes tokens here, or by prepare ----
ok "prepares" to bpe.out belay-train prepare --out bpe --train-tokenizer 400 some.txt
job_file own; sed -i 's/context: 32/context: 32, vocab: 512/; s/path: corpus.txt, tokenizer: bytes/path: bpe, tokenizer: bpe/; s/steps: 24/steps: 4/' own.yaml
ok "trains with it" to out.own belay-train own.yaml
is "text and its token files are the same" "$(eval_of .loss --checkpoint own --data some.txt)" "$(eval_of .loss --checkpoint own --data bpe)"
first=$(tail -c +65 bpe/shard-00000.bin | od -An -tu2 -N2 | tr -d ' ')
belay-train generate --checkpoint own --prompt-ids "$first" --max-tokens 1 --json >first.json
is "bytes are those of the text without its first token" "$(eval_of .bytes --checkpoint own --data some.txt)" \
  "$((3000 - $(perl -MJSON::PP -0777 -ne 'print length decode_json($_)->{prompt_text}' first.json)))"

# ---- errors ----
refuse "nothing to measure on" 2 'either --data PATH or --job FILE' --checkpoint llama
refuse "a mistyped option" 2 'error: unknown option --dta \(did you mean --data\?\); see belay-train eval --help' --checkpoint llama --dta corpus.txt
refuse "no checkpoint" 2 'needs --checkpoint PATH' --data corpus.txt
refuse "a file that is not there" 1 'nowhere.txt' --checkpoint llama --data nowhere.txt
printf '%s\n' '{"text": "one"}' '{"words": "two"}' >odd.jsonl
refuse "a line without a text" 1 'odd.jsonl:2: the line has neither "text" nor .*prepare' --checkpoint llama --data odd.jsonl
refuse "token files of another tokenizer" 1 'another tokenizer' --checkpoint llama --data bpe
refuse "a stride beyond the context" 1 'stride 33 would leave tokens out' --checkpoint llama --data some.txt --stride 33
refuse "a job with another tokenizer" 1 "the job's train.data was made with another tokenizer than the model's" --checkpoint own --job llama.yaml
sed -i 's/, holdout: 0.1//; /eval:/d' llama.yaml
refuse "a job that holds nothing out" 1 'has nothing to evaluate on' --checkpoint llama --job llama.yaml
refuse "a job file with an error" 2 'hidden 32 cannot be divided by 5 heads' --checkpoint llama --job llama.yaml --set train.model.heads=5
under 2 belay-train eval --checkpoint llama --data some.txt >many.out 2>&1
like "several processes" "$(cat many.out)" 'one process'
plan "$TAP_COUNT"
