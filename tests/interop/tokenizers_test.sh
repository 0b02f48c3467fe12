#!/usr/bin/env bash
# Token ids equal to those of js-tiktoken (GPT-2, cl100k), llama3-tokenizer-js (Llama 3) and @huggingface/tokenizers (what is written here),
# over more than a megabyte: licences, sources, and generated words, numbers, blanks and symbols of many scripts, halves of surrogate pairs.
. "$(dirname "$0")/../lib.sh"
: "${BELAY_INTEROP:?set BELAY_INTEROP to the folder with node_modules (make check-interop does)}"
export NODE_PATH=$BELAY_INTEROP/node_modules
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/interop encode=$BELAY_TEST_PROGRAMS/encode forms=$SCRATCH/forms
mkdir "$forms"

# ids MODE TOKENIZER...: the comparison's lines are shown in any case
ids() { node "$here/ids.cjs" "$1" "$encode" "$root" "${@:2}" >"$SCRATCH/ids" 2>&1; local rc=$?; sed 's/^/# /' "$SCRATCH/ids"; return $rc; }
kinds() { "$encode" --kinds | node "$here/kinds.cjs" >"$SCRATCH/kinds"; local rc=$?; sed 's/^/# /' "$SCRATCH/kinds"; return $rc; }
same_ids() { "$encode" "$1" <"$SCRATCH/text" >"$SCRATCH/a" && "$encode" "$2" <"$SCRATCH/text" >"$SCRATCH/b" && cmp "$SCRATCH/a" "$SCRATCH/b"; }

ok "each code point is letter, number, blank or symbol as for JavaScript" kinds
ok "the packages' tokenizers are written in the usual forms" node "$here/forms.cjs" "$forms"

ok "GPT-2 in three forms: the ids of js-tiktoken" ids gpt2 "$forms/gpt2.tiktoken" "$forms/openai" "$forms/hf"
ok "GPT-2, with Unicode's white space" ids gpt2+ "$forms/gpt2.tiktoken"
ok "cl100k: the ids of js-tiktoken" ids cl100k_base "$forms/cl100k_base.tiktoken"
ok "cl100k, with Unicode's white space and case folding" ids cl100k_base+ "$forms/cl100k_base.tiktoken"
ok "Llama 3 in three forms: the ids of llama3-tokenizer-js" ids llama3 "$forms"/{llama3.json,llama3-pairs.json,tokenizer.model}

# what is written here, read by Hugging Face's own
cat /usr/share/common-licenses/GPL-* "$root"/common/*.c >"$SCRATCH/text"
for name in gpt2.tiktoken tokenizer.model hf bytes; do
  [ "$name" = bytes ] && from=bytes || from=$forms/$name
  ok "$name is written as tokenizer.json" "$encode" "$from" "$SCRATCH/$name.json"
  ok "$name: its tokenizer.json gives the same ids here" same_ids "$from" "$SCRATCH/$name.json"
done
ok "a tokenizer is trained" "$encode" --train 5000 "$SCRATCH/trained.json" <"$SCRATCH/text"
ok "each of them gives the same ids in @huggingface/tokenizers" ids hf "$SCRATCH"/{gpt2.tiktoken,tokenizer.model,hf,bytes,trained}.json
plan "$TAP_COUNT"
