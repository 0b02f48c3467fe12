#!/usr/bin/env bash
# What checkpoints cost GPT-2 124M (a state of 1.4 GiB) on two threads: how long a save holds training up, as a share of a step, saved every 20 steps
# and every step; how fast it is written, beside dd with fsync of the same bytes to the same disk; and how fast it is read back; beside torch.save and
# torch.load of the same tensors where python3-torch is installed. The contenders take turns; medians of all rounds, ratios of each round's.
# CHECKPOINT=DIR/step-… of one rank: only what is measured without training, of that one.
set -euo pipefail
cd "$(dirname "$0")/../.."
bench=$PWD/build/tests/bench/bench_checkpoint train=$PWD/build/bin/belay-train torch=$PWD/tests/bench/torch_save.py
rounds=${ROUNDS:-3} tokens=${TOKENS:-256} steps=${STEPS:-8} model=${MODEL:-gpt2-124m}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
python=no
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then python=/usr/bin/python3; fi
checkpoint=${CHECKPOINT:+$(realpath "$CHECKPOINT")}
scratch=$(mktemp -d "${BENCH_DIR:-/var/tmp}/belay-bench-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
head -c 4000000 "$train" >corpus.txt

# run NAME EVERY STEPS: trains so and prints metrics.csv's steps and stalls
run() {
  cat >"$1.yaml" <<END
name: $1
train:
  model: {preset: $model, context: $tokens}
  data: {path: corpus.txt, tokenizer: bytes}
  steps: $3
  batch: {global: 4, micro: 4}
  optimizer: {lr: 1e-4}
resources: {device: cpu, cpus: $OMP_NUM_THREADS, memory: 12GiB}
checkpoint: {directory: $1, every: $2, keep: 1, busy: skip}
END
  rm -rf "$1"
  "$train" "$1.yaml" >"$1.out" 2>&1 || { cat "$1.out" >&2; exit 1; }
}
# columns NAME: step_ms and staged_ms of each row but the first, which is slower, and the last, which waits
columns() {
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } NR > 2 { print $c["step_ms"], $c["staged_ms"] }' "$1/metrics.csv"
}
median() { sort -g | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }
value() { awk -v n="$1" '{ for (i = 1; i < NF; i++) if ($i == n) print $(i + 1) }'; } # value NAME: of lines of names and numbers

# ---- beside training
beside_training() {
  for ((r = 1; r <= rounds; r++)); do
    run none 1000000 $((steps + 1))
    columns none >>none.rows
    run each 1 $((steps + 1))
    columns each >>each.rows
    grep -c 'is not saved' each.out >>each.skipped || true
    if [ "$r" -eq 1 ]; then
      run twenty 20 $((20 + steps / 2))
      columns twenty >>twenty.rows
    fi
    if [ "$r" -lt "$rounds" ]; then rm -rf none each twenty; fi
  done
  step=$(awk '{ print $1 }' none.rows | median)
  stall=$(awk '$2 > 0 { print $2 }' each.rows twenty.rows | median)
  printf 'a step without saves                 %8.0f ms (median of %d, 4 x %d tokens)\n' "$step" "$(wc -l <none.rows)" "$tokens"
  printf 'a save holds training up for         %8.0f ms (median)\n' "$stall"
  awk -v s="$step" '{ h += $2; n++ } END { printf "saved every step: share of a step      %6.2f %%, of %d steps", 100 * h / n / s, n }' each.rows
  awk '{ n += $1 } END { printf " %d while a save was under way, which were left out\n", n }' each.skipped
  awk -v s="$stall" -v t="$step" 'BEGIN { printf "  if each were saved                   %6.2f %%\n", 100 * s / t }'
  awk -v s="$step" '{ h += $2; n++ } END { printf "saved every 20 steps: share of a step  %6.2f %% (%d steps)\n", 100 * h / 20 / s, n }' twenty.rows
  printf 'a step while saves are written       %8.0f ms, %.2f of one without\n' "$(awk '{ print $1 }' each.rows | median)" \
    "$(awk -v a="$(awk '{ print $1 }' each.rows | median)" -v b="$step" 'BEGIN { print a / b }')"
  checkpoint=$scratch/$(ls -d each/step-* | tail -1)
}

# ---- alone
[ -n "$checkpoint" ] || beside_training
shard=$checkpoint/rank-00000.safetensors
bytes=$(stat -c %s "$shard")
dd_write() { # seconds
  cat "$shard" >/dev/null # into memory, which is where the others have it
  LC_ALL=C dd if="$shard" of=copied bs=4M conv=fsync 2>&1 | awk '/copied/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^s,/) print "write", $i }'
}
for ((r = 1; r <= rounds; r++)); do
  "$bench" "$checkpoint" written >>ours
  rm written
  dd_write >>dd
  rm copied
  if [ $python != no ]; then
    $python "$torch" "$shard" saved >>torch
    rm saved
  fi
done
per_gb() { awk -v s="$1" -v b="$bytes" 'BEGIN { printf "%.0f", s * 1e12 / b }'; } # ms per GB
ratio() { paste <(value "$1" <"$2") <(value "$3" <"$4") | awk '{ print $1 / $2 }' | median; }
printf '%-36s %10s %10s\n' "alone, median of $rounds" "ms per GB" "MB/s"
show() { # show WORDS FILE NAME
  local s
  s=$(value "$3" <"$2" | median)
  printf '%-36s %10s %10.0f\n' "$1" "$(per_gb "$s")" "$(awk -v s="$s" -v b="$bytes" 'BEGIN { print b / s / 1e6 }')"
}
show "copy into memory" ours stage
show "write and fsync" ours write
show "dd conv=fsync" dd write
show "verify and load, from the disk" ours cold
show "verify and load, page cache" ours warm
printf 'bandwidth of a write / of dd         %.2f\n' "$(ratio write dd write ours)"
if [ $python != no ]; then
  show "torch.save and fsync" torch write
  show "torch.load, from the disk" torch cold
  show "torch.load, page cache" torch warm
  printf 'torch.save / write %.2f, torch.save / what training waits for %.1f, torch.load / restore: disk %.2f, page cache %.2f\n' \
    "$(ratio write torch write ours)" "$(ratio write torch stage ours)" "$(ratio cold torch cold ours)" "$(ratio warm torch warm ours)"
else
  echo "PyTorch not measured: python3-torch is not installed"
fi
