# Shared by the integration tests: TAP lines, a cluster of the test's own in a fresh folder, waiting for conditions.
# A test sources this (or one of tests/integration/*_lib.sh, which add to it), calls `plan N` first or `plan "$TAP_COUNT"` last, and
# `ok`/`is`/`like` N times; everything it started ends with it.
set -u
: "${BELAY_BIN:?set BELAY_BIN to the folder of the built programs (make check does)}"
TAP_COUNT=0 TAP_FAILED=0
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/belay-test-XXXXXX")
export BELAY_DIR=$SCRATCH/cluster
PATH=$BELAY_BIN:$PATH

finish() {
  local rc=$?
  if [ -e "$BELAY_DIR/belayd.pid" ]; then
    if [ "$TAP_FAILED" -ne 0 ] || [ "$rc" -ne 0 ]; then show_state >&2; fi
    belay down >/dev/null 2>"$SCRATCH/down.err" || sed 's/^/# down: /' "$SCRATCH/down.err" >&2
  fi
  if [ -n "${KEEP:-}" ]; then echo "# kept: $SCRATCH"; else rm -rf "$SCRATCH"; fi
  [ "$TAP_FAILED" -eq 0 ] || exit 1
}
trap finish EXIT
trap 'exit 143' TERM INT

# What a reader of a failed run wants to see.
show_state() {
  echo "# --- state of the cluster after a failure"
  belay status --all 2>&1 | sed 's/^/# /'
  belay events 2>&1 | tail -n 40 | sed 's/^/# /'
  tail -n 8 "$BELAY_DIR"/belayd.log "$BELAY_DIR"/agents/*/agent.log "$BELAY_DIR"/agents/*/attempts/*/shim.log 2>/dev/null | sed 's/^/# /'
  tail -n 5 "$BELAY_DIR"/agents/*/logs/*/*/*.log 2>/dev/null | sed 's/^/# /'
}

plan() { echo "1..$1"; }
diag() { printf '%s\n' "$@" | sed 's/^/# /'; }

# ok DESCRIPTION COMMAND...: passes when the command does
ok() {
  local what=$1; shift
  TAP_COUNT=$((TAP_COUNT + 1))
  if "$@"; then echo "ok $TAP_COUNT - $what"; else
    echo "not ok $TAP_COUNT - $what"; TAP_FAILED=1; diag "failed: $*"; return 1
  fi
}
is() { # is DESCRIPTION GOT EXPECTED
  if ! ok "$1" test "$2" = "$3"; then diag "got: $2" "expected: $3"; return 1; fi
}
like() { # like DESCRIPTION TEXT REGEX
  if ! ok "$1" grep -qE -- "$3" <<<"$2"; then diag "got: $2" "expected to match: $3"; return 1; fi
}
# kill9 PID: SIGKILL to one process. Refuses everything else: `kill -9 -1` would end every process of this host, and an
# empty or odd answer of a command must not become such a number.
kill9() {
  [[ $1 =~ ^[1-9][0-9]*$ ]] && [ "$1" -gt 1 ] || { diag "kill9: \"$1\" is no process id"; return 1; }
  kill -KILL "$1"
}
quiet() { "$@" >/dev/null; } # for `ok`, whose own line must not be swallowed
skip() { TAP_COUNT=$((TAP_COUNT + 1)); echo "ok $TAP_COUNT - $1 # SKIP $2"; }

# A Python that has PyTorch; fails when none has. One of the user's own may stand before Debian's, which has the package.
torch_python() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import torch' 2>/dev/null && { echo "$python"; return; }
  done
  return 1
}

# until_true SECONDS COMMAND...: waits for a condition; false, and said, when it did not come true in time (a sanitizer build has more)
until_true() {
  local end=$(( $(date +%s%N) + $1 * ${BELAY_TEST_SLOWDOWN:-1} * 1000000000 )); shift
  while ! "$@"; do
    [ "$(date +%s%N)" -lt "$end" ] || { diag "waited in vain for: $*" >&2; return 1; }
    sleep 0.02
  done
}

# under N COMMAND...: as N ranks under mpirun, also for root and on fewer cores. mpirun does not read the test's input. It has a limit of its own,
# and then a SIGKILL: when a rank dies within MPI_Init, Open MPI 4.1 can wait for it for ever, and does not listen to SIGTERM.
UNDER_BTL=self,vader,tcp # how ranks reach each other
under() {
  local n=$1; shift
  timeout --foreground -k 10 "$((120 * ${BELAY_TEST_SLOWDOWN:-1}))" \
    mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl "$UNDER_BTL" -n "$n" "$@" </dev/null
}

# within MS LIMIT_MS: a limit that holds for plain builds; sanitized programs get more
within() { [ "$1" -lt $(($2 * ${BELAY_TEST_SLOWDOWN:-1})) ]; }

# json PATH <FILE: a value of a JSON document, e.g. json .checkpoint.step, json .placement.0.node, json .length
json() {
  perl -MJSON::PP -e '
    local $/; my $v = JSON::PP->new->utf8->decode(<STDIN>);
    for my $k (grep { length } split /\./, $ARGV[0]) {
      if ($k eq "length") { $v = ref $v eq "ARRAY" ? scalar @$v : scalar keys %$v; last }
      $v = ref $v eq "ARRAY" ? $v->[$k] : ref $v eq "HASH" ? $v->{$k} : undef;
      last unless defined $v;
    }
    print !defined $v ? "null" : ref $v eq "JSON::PP::Boolean" ? ($v ? "true" : "false") : ref $v ? JSON::PP->new->canonical->encode($v) : $v, "\n";
  ' "$1"
}

job() { belay status "$1" -o json | json "$2"; }             # job ID .state
job_is() { [ "$(job "$1" .state 2>/dev/null)" = "$2" ]; }      # job_is ID STATE
job_ended() { case "$(job "$1" .state 2>/dev/null)" in completed|failed|cancelled) ;; *) false ;; esac; }
job_step_at_least() { local s; s=$(job "$1" .step 2>/dev/null); [ "$s" != null ] && [ "${s:-0}" -ge "$2" ] 2>/dev/null; }
events_of() { belay events --job "$1" -o json; }

# processes_with NAME=VALUE: pids whose environment holds it, one a line. One grep for all: a shell loop over /proc takes seconds where
# thousands of zombies lie about.
processes_with() { grep -lzxF -- "$1" /proc/[0-9]*/environ 2>/dev/null | sed 's/[^0-9]//g'; }
