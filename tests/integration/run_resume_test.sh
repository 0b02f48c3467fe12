#!/usr/bin/env bash
# Programs under `run:` go on from the checkpoint that they announced: a shell script, and examples/torch-resume.py with PyTorch or with a stand-in.
. "$(dirname "$0")/../lib.sh"
plan 14
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$SCRATCH" || exit 1
ok "a cluster" quiet belay up --nodes 1 --slots 2 || exit 1

start() { # NAME ENV COMMAND (a YAML list): in a folder of its own; its id
  mkdir -p "$1"
  printf 'name: %s\nrun: {ranks: 1, command: %s}\nresources: {device: cpu, cpus: 1, memory: 256MiB}\nrestart: {max: 9, window: 1h, backoff: 100ms}\nenv: {%s}\n' \
    "$1" "$3" "$2" >"$1/job.yaml"
  (cd "$1" && belay submit job.yaml)
}
attempt_is() { [ "$(job "$1" .attempt)" = "$2" ] && job_is "$1" running; }
rank_of() { belay describe "$1" -o json | json .attempts | perl -MJSON::PP -e 'local $/; my @a = @{decode_json(<STDIN>)}; print $a[-1]{ranks}[0]{pid}'; }
kill_rank() { # JOB: SIGKILL to its rank, then the next attempt runs
  local next=$(($(job "$1" .attempt) + 1))
  kill9 "$(rank_of "$1")"
  until_true 30 attempt_is "$1" "$next"
}
saved_at_least() { local s; s=$(job "$1" .checkpoint.step); [ "$s" != null ] && [ "$s" -ge "$2" ]; }
newest_saved() { belay checkpoints "$1" -o json | perl -MJSON::PP -e 'local $/; my @c = @{decode_json(<STDIN>)}; print $c[-1]{step}'; }
first_line() { belay logs "$1" --attempt "$2" 2>/dev/null | head -1; }
first_line_is() { [ "$(first_line "$1" "$2")" = "$3" ]; }

# resumes WHAT ID WORDS: killed after a checkpoint, it goes on from the newest that it announced
resumes() {
  local what=$1 id=$2 words=$3 step attempt
  ok "$what: saves" until_true 30 saved_at_least "$id" 5
  attempt=$(job "$id" .attempt)
  kill_rank "$id"
  step=$(belay checkpoints "$id" -o json | perl -MJSON::PP -e 'local $/; my ($n, @c) = (shift @ARGV, @{decode_json(<STDIN>)}); print +(grep { $_->{attempt} <= $n } @c)[-1]{step}' "$attempt")
  ok "$what: goes on from step $step after its rank was killed" until_true 20 first_line_is "$id" $((attempt + 1)) "$words $step"
}

# --- a shell script
id=$(start shell "" "[$here/programs/saver.sh, \"100000\", \"5\"]")
resumes "a shell script" "$id" "goes on from step"
until_true 20 saved_at_least "$id" 20
quiet belay hold "$id"
until_true 20 job_is "$id" held
newest=$(newest_saved "$id")
rm "shell/saved-$newest"
before=$(belay checkpoints "$id" -o json | perl -MJSON::PP -e 'local $/; my @c = sort { $a->{time} cmp $b->{time} || $a->{step} <=> $b->{step} } @{decode_json(<STDIN>)}; print $c[-2]{step}')
quiet belay release "$id"
ok "it runs again" until_true 20 attempt_is "$id" 3
ok "with the newest checkpoint ($newest) gone it goes on from the one before ($before)" until_true 20 first_line_is "$id" 3 "goes on from step $before"
ok "the shim's log says which is gone" grep -q "the checkpoint $SCRATCH/shell/saved-$newest is not there" "$BELAY_DIR"/agents/node0/attempts/"$id".3/shim.log
quiet belay cancel "$id"

# --- the example
resumes_python() { # NAME PYTHON ENV
  cp "$here/../examples/torch-resume.py" "$SCRATCH/" || return 1
  local id
  id=$(start "$1" "$3" "[$2, $SCRATCH/torch-resume.py, \"100000\", \"5\"]")
  resumes "$1" "$id" "begins at step"
  is "$1: a size that it does not tell is left open" "$(belay checkpoints "$id" | awk 'NR == 2 {print $4}')$(belay status "$id" | grep -c '^checkpoint.* B$')" "-0"
  belay checkpoint "$id" --wait >asked 2>&1
  is "$1: saves when asked" $? 0
  quiet belay cancel "$id"
}
resumes_python example-without-torch python3 "PYTHONPATH: $here/programs/torch_stub"
if python=$(torch_python); then
  resumes_python example "$python" 'PYTHONUNBUFFERED: "1"'
else
  for _ in 1 2 3 4; do skip "the example with PyTorch" "PyTorch is not there; Debian's package is python3-torch"; done
fi
