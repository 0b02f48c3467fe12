#!/usr/bin/env bash
# belay-train prepare: text of all kinds to a folder of token files that a run learns from. The same bytes for any number of threads, whatever is
# interrupted; errors name file and line.
. "$(dirname "$0")/train_lib.sh"

# refuse NAME CODE REGEX ARGUMENT...: prepare ends with CODE and one sentence
refuse() {
  local what=$1 code=$2 regex=$3 rc=0; shift 3
  belay-train prepare "$@" >refuse.out 2>refuse.err || rc=$?
  is "$what: exit code" "$rc" "$code"
  like "$what: sentence" "$(cat refuse.err)" "$regex"
}
# same A B: two folders with the same files of the same content
same() { diff -r "$1" "$2"; }
# tokens FILE: those of a shard of 16 bits, one a line
tokens() { tail -c +65 "$1" | od -An -v -tu2 -w2 | tr -d ' '; }

mkdir -p in/sub
cp corpus.txt in/corpus.txt
for i in $(seq 60); do cat /usr/share/common-licenses/GPL-3; done >in/large.txt # more than one piece
perl -e 'for my $i (1 .. 30000) { printf "{\"id\":%d,\"text\":\"record %d, \\u00e9t\\u00e9 \\ud83d\\ude00 and some more words\"}\n", $i, $i }' >in/sub/lines.jsonl
printf 'P\0P' >in/sub/picture
: >in/sub/empty.txt

# ---- the output ----
ok "bytes, one thread" to bytes1.out belay-train prepare --out bytes1 --jobs 1 --shard-tokens 1000000 in
ok "bytes, four threads" to bytes4.out belay-train prepare --out bytes4 --jobs 4 --shard-tokens 1000000 in
ok "both made the same" same bytes1 bytes4
like "the summary counts documents and tokens" "$(cat bytes1.out)" '^30002 documents in 4 files, [0-9]+ bytes of text: [0-9]+ tokens, 1.00 bytes a token, to [0-9]+ shards in bytes1'
like "it says what was left out" "$(cat bytes1.out)" 'left out what is not text: 1'
like "it says how to train with it" "$(cat bytes1.out)" 'data: \{path: bytes1, tokenizer: bytes\}'
is "one shard is full" "$(json .shards.0.tokens <bytes1/index.json)" 1000000
is "the first document is the first file" "$(tokens bytes1/shard-00000.bin | head -n 2000 | perl -ne 'print chr')" "$(head -c 2000 corpus.txt)"
sum=$(perl -MJSON::PP -0777 -ne 'my $s = 0; $s += $_->{tokens} for @{ decode_json($_)->{shards} }; print $s' bytes1/index.json)
is "no byte is lost" "$sum" "$(json .text_bytes <bytes1/index.json)"
is "nothing else is left in the folder" "$(ls bytes1 | grep -vc '^shard-[0-9]*\.bin$')" 1

for i in 1 2 3 4 5; do cat in/large.txt; done >many.txt # more pieces than are in work at once
ok "many pieces, one thread" to many1.out belay-train prepare --out many1 --jobs 1 many.txt
ok "many pieces, two threads" to many2.out belay-train prepare --out many2 --jobs 2 many.txt
ok "both made the same" same many1 many2
is "and it is the text" "$(tail -c +65 many1/shard-00000.bin | tr -d '\0' | cksum)" "$(cksum <many.txt)"

# ---- a run learns from it ----
# job NAME PATH: a job of six steps over PATH
job() {
  job_file "$1"
  sed -i "s,corpus.txt,$2,; s/steps: 24/steps: 6/" "$1.yaml"
}
ok "the text as one file" to text.out belay-train prepare --out one corpus.txt
job text corpus.txt; job one one
ok "a run over text" to text.log belay-train text.yaml
ok "a run over its tokens" to one.log belay-train one.yaml
is "it has made its steps" "$(rows one)" 6
is "they see the same" "$(losses one)" "$(losses text)"

# ---- a tokenizer of its own ----
ok "trains one, one thread" to bpe1.out belay-train prepare --out bpe1 --train-tokenizer 600 --jobs 1 --shard-tokens 300000 in
ok "trains one, three threads" to bpe3.out belay-train prepare --out bpe3 --train-tokenizer 600 --jobs 3 --shard-tokens 300000 in
ok "both are the same, tokenizer and tokens" same bpe1 bpe3
is "it is as large as was asked" "$(json .vocab <bpe1/index.json)" 600
is "the end of text is its last token" "$(json .end <bpe1/index.json)" 599
is "each document ends with it" "$(for f in bpe1/shard-*.bin; do tokens "$f"; done | grep -c '^599$')" 30002
like "tokens are longer than bytes" "$(cat bpe1.out)" ' [2-9]\.[0-9]+ bytes a token'
ok "prepares with it again" to again1.out belay-train prepare --out bpe-again --tokenizer bpe1 --shard-tokens 300000 in
ok "the same tokens" same bpe1 bpe-again
job bpe bpe1
sed -i 's/tokenizer: bytes/tokenizer: bpe1/; s/heads: 4,/heads: 4, vocab: 600,/' bpe.yaml
sed -i 's/path: bpe1,/mix: [{path: bpe1, weight: 3}, {path: bpe1\/shard-00000.bin}], holdout: 0.1,/' bpe.yaml
ok "a run learns from a mixture of them" to bpe.log belay-train bpe.yaml
like "it says what there is" "$(cat bpe.log)" '^data: 2 corpora, [0-9]+ tokens, [0-9]+ sequences, [0-9]+ held out'
perl -e 'printf "{\"prompt\":\"what is %d and %d?\",\"completion\":\"%d\"}\n", $_, $_, 2 * $_ for 1 .. 3000' >sums.jsonl
ok "questions and answers" to sums.out belay-train prepare --out sums sums.jsonl
like "the questions do not count" "$(cat sums.out)" '[0-9]+ tokens of prompts are not counted'
job sums sums
ok "a run learns the answers" to sums.log belay-train sums.yaml
rc=0
belay-train bpe.yaml --set checkpoint.resume=never --set train.data.tokenizer=bytes >mixed.out 2>&1 || rc=$?
is "a run that names another tokenizer ends" "$rc" 1
like "and says which one to name" "$(cat mixed.out)" 'bpe1 was made with another tokenizer than train.data.tokenizer, bytes; name the one .*tokenizer: bpe1'

# ---- errors ----
refuse "no folder to write" 2 'needs --out' in
refuse "no text" 2 'needs text' --out x
refuse "no such option" 2 'error: unknown option --outt \(did you mean --out\?\); see belay-train prepare --help' --outt x in
refuse "no shard" 2 'shard-tokens must be a whole number' --out x --shard-tokens 0 in
refuse "two tokenizers" 2 'cannot both' --out x --tokenizer bytes --train-tokenizer 300 in
refuse "no such split" 2 'must be gpt2 or llama3' --out x --split words in
refuse "missing input" 1 'cannot open nowhere' --out x nowhere
refuse "missing tokenizer" 1 'nowhere.json' --out x --tokenizer nowhere.json in
refuse "no text in it" 1 'is not text' --out x in/sub/picture
refuse "a finished folder" 1 'bytes1 already holds token files' --out bytes1 in
refuse "a folder of something else" 1 '"corpus.txt" is in it' --out in in
refuse "a missing member" 1 'in/sub/lines.jsonl:1: the line has no member "body"; mend it' --out x --field body in/sub/lines.jsonl
cp in/sub/lines.jsonl bad.jsonl
sed -i '20011s/.*/{"text": no}/' bad.jsonl
refuse "a bad line" 1 'bad.jsonl:20011: the line is not JSON' --out x bad.jsonl
ok "it can be left out" to skipped.out belay-train prepare --out x --skip-bad-lines bad.jsonl
like "and is told" "$(cat skipped.out)" 'no record: 1 of the lines; the first is bad.jsonl:20011'
rc=0
(ulimit -f 300; exec belay-train prepare --out full in/large.txt >full.out 2>full.err) || rc=$?
is "a full disk: exit code" "$rc" 1
like "a full disk: sentence" "$(cat full.err)" 'cannot write full/shard-00000.bin'
ok "a full disk: no index" test ! -e full/index.json

printf '\xef\xbb\xbf{"text":"a"}\r\n{"text":"b"}\r\n' >windows.jsonl
ok "lines as Windows writes them" to windows.out belay-train prepare --out windows windows.jsonl
like "are two documents" "$(cat windows.out)" '^2 documents in 1 file, 2 bytes of text: 2 tokens'
mkdir beside && cp in/large.txt beside/
ok "token files beside their text" to beside.out belay-train prepare --out beside/a --train-tokenizer 300 beside
ok "are made once more" to beside.out belay-train prepare --out beside/b --train-tokenizer 300 beside
ok "and are the same" same beside/a beside/b

# ---- interrupted ----
interrupt() { # one prepare, killed when its third shard is there; fails when it was faster than that
  rm -rf again
  belay-train prepare --out again --shard-tokens 1000 in/large.txt >again.out 2>&1 &
  local killed=$!
  until_true 20 test -e again/shard-00002.bin
  kill9 "$killed"
  wait "$killed" 2>/dev/null # by the signal
  [ ! -e again/index.json ]
}
ok "a run is interrupted" eval 'interrupt || interrupt || interrupt || interrupt || interrupt'
ok "it leaves no index, and says that it is unfinished" test -e again/unfinished
ok "the same command makes it whole" to again.out belay-train prepare --out again --shard-tokens 1000000 in/large.txt
ok "one never interrupted" to never.out belay-train prepare --out never --shard-tokens 1000000 in/large.txt
ok "both are the same" same again never

plan "$TAP_COUNT"
