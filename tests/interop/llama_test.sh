#!/usr/bin/env bash
# Exported models in llama.cpp (node-llama-cpp's prebuilt binding): GPT-2, Llama, Mixtral with random weights are computed as a reference in double
# computes them from Hugging Face's layout, itself exported; trained ones say what `belay-train generate` says; texts are cut into the same ids as
# here.
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/integration/train_lib.sh"
: "${BELAY_INTEROP:?set BELAY_INTEROP to the folder with node_modules (make check-interop does)}"
export NODE_PATH=$BELAY_INTEROP/node_modules
here=$root/tests/interop
if ! ls "$BELAY_INTEROP"/node_modules/@node-llama-cpp/linux-*/bins/*/llama-addon.node >/dev/null 2>&1; then
  echo "1..0 # SKIP there is no llama.cpp for this kind of processor on npm"; exit 0
fi

quietly() { "$@" >out 2>&1 || { diag "$(cat out)"; return 1; }; }
export_to() { quietly belay-train export "$@"; }
# computed LIMIT MODEL COUNT: as many ids, chosen after a prompt, as the reference chooses, and logits within LIMIT of the largest
computed() {
  node "$here/llama.cjs" "$2.gguf" "$3" 72 101 108 108 111 >llama.json && node "$here/reference.cjs" "$2" "$3" 72 101 108 108 111 >reference.json || return 1
  node "$here/compare.cjs" "$1" llama.json reference.json >out; local rc=$?
  sed 's/^/# /' out
  return $rc
}

# llama.cpp has GELU in a table of half precision; other arithmetic in F32 is its own order of sums. With BF16 and F16 it rounds activations, too.
for kind in gpt2 llama tied mixtral; do
  node "$here/random_model.cjs" "from-$kind" $kind
  ok "$kind is imported" quietly belay-train import from-$kind --out $kind.checkpoint
  for dtype in f32 bf16 f16; do
    case $kind-$dtype in gpt2-f32) limit=1e-3 count=20 ;; *-f32) limit=1e-5 count=20 ;; *-f16) limit=5e-3 count=1 ;; *) limit=5e-2 count=1 ;; esac
    ok "$kind goes out in $dtype" export_to $kind.checkpoint --out $kind.$dtype --dtype $dtype --tokenizer bytes
    ok "$kind goes out as GGUF in $dtype" export_to $kind.checkpoint --out $kind.$dtype.gguf --dtype $dtype --tokenizer bytes
    ok "$kind in $dtype: $count id(s) and their logits in llama.cpp" computed $limit $kind.$dtype $count
  done
done
# generated LIMIT CHECKPOINT GGUF: the most likely ids after a prompt here are those in llama.cpp
generated() {
  belay-train generate --checkpoint "$2" --tokenizer bytes --prompt-ids 72,101,108,108,111 --temperature 0 --max-tokens 24 --ignore-end --json --logprobs >ours.json &&
    node "$here/llama.cjs" "$3" 24 72 101 108 108 111 >llama.json || return 1
  node "$here/generated.cjs" "$1" ours.json llama.json >out; local rc=$?
  sed 's/^/# /' out
  return $rc
}
for kind in gpt2 llama tied mixtral; do
  ok "$kind: belay-train generate says the same" generated 2e-3 $kind.checkpoint $kind.f32.gguf
done
for kind in gpt2 llama mixtral; do
  job_file "run-$kind" "${kind/mixtral/llama}"
  [ $kind = mixtral ] && sed -i 's/context: 32}/context: 32, experts: 4, top_k: 2}/' run-$kind.yaml
  ok "$kind learns" quietly belay-train run-$kind.yaml --set train.steps=150 --set checkpoint.every=150 --set train.optimizer.lr=1e-2
  ok "$kind goes out of its checkpoint directory" export_to run-$kind --out run-$kind.gguf
  ok "what was learned is said in llama.cpp, too" generated 2e-3 run-$kind run-$kind.gguf
done
ok "what came in leaves bit for bit" node "$here/same_weights.cjs" from-mixtral mixtral.f32

# the vocabularies are larger than the tokenizers', as where they were padded
same_ids() { # same_ids NAME TOKENIZER
  "$BELAY_TEST_PROGRAMS/encode" "$2" <text >ids && node "$here/llama.cjs" "$1.gguf" --text text >llama.json || return 1
  node -e 'const fs = require("fs"), b = fs.readFileSync("ids"); console.log(JSON.stringify({ ids: Array.from({ length: b.length / 4 }, (_, i) => b.readInt32LE(4 * i)) }))' >ours.json
  node "$here/compare.cjs" 0 llama.json ours.json >out; local rc=$?
  cut -c1-300 out | sed 's/^/# /'
  return $rc
}
mkdir forms
{ cat /usr/share/common-licenses/GPL-3 "$root"/common/*.c
  printf 'Größe, naïve façade — “quotes” 中文字 русский 日本語 12345 3.14 １２  \t\n\n don’t I'"'"'LL we'"'"'ve 🙂👩‍👩‍👧 e\xcc\x81\n'; } >text
ok "tokenizers in the forms that people have" quietly node "$here/forms.cjs" forms
ok "a tokenizer trained here" quietly "$BELAY_TEST_PROGRAMS/encode" --train 3000 trained.json <text
while read -r name kind vocab tokenizer; do
  node "$here/random_model.cjs" "from-$name" "$kind" "$vocab"
  ok "$name: goes out" export_to "from-$name" --out "$name.gguf" --tokenizer "$tokenizer" --dtype bf16
  ok "$name: the ids of a text in llama.cpp" same_ids "$name" "$tokenizer"
done <<END
bytes gpt2 300 bytes
gpt2-ranks gpt2 50304 forms/gpt2.tiktoken
llama3 tied 128256 forms/tokenizer.model
cl100k tied 100352 forms/cl100k_base.tiktoken
trained gpt2 3072 trained.json
END
plan "$TAP_COUNT"
