#!/usr/bin/env bash
# A checkpoint of one mesh goes on on any other: the curve is that of one rank never interrupted. On the same mesh it is so bit by bit.
. "$(dirname "$0")/train_lib.sh"
plan 44

# big_job NAME [arch [more of the model]]: job_file with four layers, and dropout, whose mask must not depend on the mesh
big_job() {
  job_file "$1" "${2:-gpt2}"
  sed -i "s/layers: 2/layers: 4, dropout: 0.1${3:+, $3}/; s/every: 5/every: 10/; s/keep: 3/keep: 9/; s/64MiB/256MiB/" "$1.yaml"
}
# mesh NAME N PARALLEL...: NAME.yaml on N ranks with that mesh, e.g. mesh a 4 tp=2 dp=2 train.precision=bf16
mesh() {
  local name=$1 n=$2 set sets=(); shift 2
  for set in "$@"; do
    case $set in *.*) ;; *) set=parallel.$set ;; esac
    sets+=(--set "$set")
  done
  if [ "$n" -eq 1 ]; then belay-train "$name.yaml" "${sets[@]}"; else under "$n" belay-train "$name.yaml" "${sets[@]}"; fi
}
resumed_from() { grep -q "resuming from step $2" "$1"; }

went_on() { resumed_from "out.$1" 10 && close_columns 2 1e-5 straight "$1"; }

# --- eight ranks, one of them killed, and on with other meshes
big_job straight; big_job eight
ok "one rank, never interrupted" to out mesh straight 1
BELAY_FAULT=kill@13:rank=5 mesh eight 8 tp=2 pp=2 dp=2 zero=1 >out 2>&1
ok "eight ranks until one is killed" test $? -ne 0
is "their checkpoint is of step 10" "$(basename eight/step-*)" step-00000010
number=0
while read -r n sets; do
  number=$((number + 1)); name=on$number
  branch eight $name 10
  # shellcheck disable=SC2086
  ok "goes on: $n rank(s) $sets" to out.$name mesh $name "$n" $sets
  ok "the curve is that of one rank: $n rank(s) $sets" went_on $name
done <<END
1
2 tp=2
4 pp=4 train.batch.micro=2
4 dp=4 zero=3
2 cp=2
4 tp=2 pp=2 schedule=interleaved
END

# --- experts, from two ranks that share them to one that has all
big_job moe llama "experts: 4, top_k: 2"; big_job moe1 llama "experts: 4, top_k: 2"
ok "experts on one rank" to out mesh moe1 1
ok "experts on two" to out mesh moe 2 dp=2 ep=2 zero=1
ok "they have one curve" close_columns 2 1e-5 moe1 moe
branch moe moe2 10
ok "one rank goes on" to out.moe2 mesh moe2 1
ok "with the same curve" close_columns 2 1e-5 moe1 moe2

# --- the same mesh: bit by bit, losses, and all numbers of the last checkpoint
same_files() { (cd "$1" && cat ./*.safetensors | md5sum) | cmp -s - <(cd "$2" && cat ./*.safetensors | md5sum); }
while read -r n sets; do
  name="same$((number += 1))"
  big_job $name
  # shellcheck disable=SC2086
  to out.$name mesh $name "$n" $sets && branch $name ${name}b 10 && to out.${name}b mesh ${name}b "$n" $sets
  is "goes on bit by bit: $n ranks $sets" "$(losses ${name}b)$(resumed_from out.${name}b 10 && echo " from 10")" "$(losses $name) from 10"
  ok "to the same numbers: $n ranks $sets" same_files $name/step-00000024 ${name}b/step-00000024
done <<END
2 dp=2 zero=0
2 dp=2 zero=1
4 tp=2 dp=2 zero=2
4 pp=2 dp=2 zero=3
2 cp=2 zero=1
2 dp=2 zero=0 train.precision=bf16
4 tp=2 dp=2 zero=1 train.precision=bf16
2 dp=2 zero=3 train.precision=bf16
END
BELAY_FAULT=kill@17:rank=1 mesh eight 8 tp=2 pp=2 dp=2 zero=1 >out 2>&1
mesh eight 8 tp=2 pp=2 dp=2 zero=1 >out 2>&1
big_job eight0
ok "eight ranks never interrupted" to out mesh eight0 8 tp=2 pp=2 dp=2 zero=1
is "eight ranks of which one was killed, twice" "$(losses eight)" "$(losses eight0)"

# --- within an epoch every sample comes once, also when the second one is interrupted. Nothing is learned and a step has one sample, so that its
#     loss tells which one.
head -c $((20 * 32 + 1)) corpus.txt >small.txt
big_job epoch
sed -i 's/corpus.txt/small.txt/; s/dropout: 0.1/dropout: 0/; s/global: 16, micro: 4/global: 1, micro: 1/; s/lr: 1e-3, min_lr: 1e-4/lr: 0, min_lr: 0/; s/steps: 24/steps: 60/' epoch.yaml
(BELAY_FAULT=kill@37 exec belay-train epoch.yaml) >out 2>&1
ok "the second epoch is interrupted" test $? -eq 137
ok "another mesh goes on" to out mesh epoch 2 tp=2
epoch() { awk -F, -v n="$1" 'int(($1 - 1) / 20) == n && NR > 1 { printf "%.5f\n", $2 }' epoch/metrics.csv; }
is "20 samples, all different" "$(epoch 0 | sort -u | wc -l)" 20
is "all of them in the second epoch" "$(epoch 1 | sort)" "$(epoch 0 | sort)"
is "all of them in the third epoch" "$(epoch 2 | sort)" "$(epoch 0 | sort)"
ok "in another order" test "$(epoch 1)" != "$(epoch 0)"
