#!/usr/bin/env bash
# belay-train export and import from the command line. The model is a checkpoint that an older version wrote.
. "$(dirname "$0")/../lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$SCRATCH" || exit 1
plan 38
cp -r "$root/tests/fixtures/checkpoint/format1-gpt2" old

belay-train export old --out hf --tokenizer bytes >out 2>err
is "exports" $? 0
is "says what" "$(cat out)" "hf: old as hf in F32, 0.0 MiB"
is "into these files" "$(echo $(ls hf))" "config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json"
is "that others may read" "$(stat -c %a hf/config.json)" "$(stat -c %a hf/model.safetensors)"
like "of GPT-2" "$(cat hf/config.json)" '"model_type": "gpt2"'
belay-train import hf/ --out ck/of/it >out 2>err
is "imports" $? 0
like "says how a job has it" "$(cat out)" 'model: \{arch: gpt2, layers: 1, hidden: 4, heads: 2, kv_heads: 2, ffn: 6, vocab: 256, context: 4, tied: true, norm_eps: 1e-05\}'
is "a checkpoint" "$(echo $(ls ck/of/it))" "manifest.json rank-00000.safetensors tokenizer.json"
belay-train export ck/of/it --out again >out 2>err
is "exports with its own tokenizer" $? 0
is "the same bytes" "$(cat again/model.safetensors | md5sum)" "$(cat hf/model.safetensors | md5sum)"
belay-train export hf --out in/new/folders/model.gguf >out 2>err
is "GGUF by the name of the file" $? 0
is "begins like one" "$(head -c 4 in/new/folders/model.gguf)" GGUF
belay-train export hf --format gguf --dtype f16 --out folder >out 2>err
is "GGUF into a folder" $? 0
is "as model.gguf" "$(ls folder)" model.gguf
belay-train export hf --out shards --dtype bf16 --max-shard 1KB >out 2>err
is "in shards" $? 0
is "with an index" "$(ls shards/*.safetensors | wc -l)" "$(grep -o 'model-0[^"]*' shards/model.safetensors.index.json | sort -u | wc -l)"
is "nothing is left under way" "$(find . -name '*.tmp' | wc -l)" 0

belay-train export old --out hf --tokenizer bytes >out 2>err
is "not over another" "$?$(grep -c 'hf is not empty' err)" 11
belay-train export hf --out in/new/folders/model.gguf >out 2>err
is "nor over a file" "$?$(grep -c 'already there' err)" 11
belay-train export old --out new >out 2>err
is "a checkpoint that names no tokenizer" "$?$(grep -c 'old: its tokenizer (--tokenizer NAME takes another): none is named there' err)" 11
belay-train export old --out new --tokenizer /nowhere >out 2>err
is "no such tokenizer" "$?$(grep -c /nowhere err)" 11
printf x | dd of=old/rank-00001.safetensors bs=1 seek=8000 conv=notrunc 2>/dev/null
belay-train export old --out new --tokenizer bytes >out 2>err
is "a damaged checkpoint" "$?$(grep -c 'rank-00001.safetensors is damaged' err)" 11
belay-train import old --out new >out 2>err
is "nor imported, with a new hash" "$?$(grep -c 'rank-00001.safetensors is damaged' err)" 11
is "leaves nothing" "$(ls -d new* 2>/dev/null)" ""
belay-train export nothing --out new >out 2>err
is "no checkpoint at all" "$?$(grep -c 'nothing is no checkpoint' err)" 11
belay-train import nothing --out new >out 2>err
is "nor a folder to import" "$?$(grep -c 'nothing is no checkpoint' err)" 11
belay-train export hf >out 2>err
is "without --out" "$?$(grep -c 'usage: belay-train export' err)" 21
belay-train export hf --out new --dtype int4 >out 2>err
is "unknown type" "$?$(grep -c 'int4 is none of f32, bf16 and f16' err)" 21
belay-train export hf --out new --format onnx >out 2>err
is "unknown format" "$?$(grep -c 'onnx is neither hf nor gguf' err)" 21
belay-train export hf --out new.gguf --format hf >out 2>err
is "a folder under the name of a file" "$?$(grep -c 'hf makes a folder, and --out names a GGUF file; leave --format out' err)$(ls -d new.gguf 2>/dev/null)" 21
cp -r hf nan && printf '\0\0\300\177' | dd of=nan/model.safetensors bs=1 seek=$(($(stat -c %s nan/model.safetensors) - 4)) conv=notrunc 2>/dev/null
belay-train import hf --out finite >out 2>err
is "numbers are imported without a word" "$?$(cat err)" 0
belay-train import nan --out others >out 2>err
is "those that are none with one" "$?$(grep -c 'warn: nan: .*, and others perhaps, holds numbers that are not finite' err)" 01
belay-train import ck/of/it --out moved >out 2>err
is "a checkpoint is imported, too" "$?$(ls moved | grep -c .)" 03
is "with the same numbers" "$(md5sum <moved/rank-00000.safetensors)" "$(md5sum <ck/of/it/rank-00000.safetensors)"
belay-train export hf --out new --max-shard 5XB >out 2>err
is "no size" "$?$(grep -c '5XB is no size' err)" 21
belay-train export hf --out new --type f16 >out 2>err
is "a mistyped option" "$?$(grep -c 'error: unknown option --type (did you mean --dtype?); see belay-train export --help' err)" 21
belay-train import hf --output new >out 2>err
is "of import" "$?$(grep -c 'error: unknown option --output (did you mean --out?); see belay-train import --help' err)" 21
belay-train import --help >out 2>err
is "help" "$?$(grep -c 'usage: belay-train import' out)" 01
