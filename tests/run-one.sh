#!/usr/bin/env bash
# Runs one test for prove: a cmocka program or a shell script, with a time limit that also ends what it left behind.
# BELAY_TEST_SLOWDOWN (make check sets it for sanitizer builds, see the Makefile) multiplies the limit.
#
# In a sanitizer build every process below the test, daemons, shims and ranks too, writes what its sanitizer finds into a folder of this
# run, wherever its stderr goes and whatever is done with its exit code. One file there fails the test.
limit=$((${BELAY_TEST_LIMIT:-300} * ${BELAY_TEST_SLOWDOWN:-1}))
case "$1" in
  *.sh) run=(timeout --kill-after=10 "$limit" bash "$@") ;;
  *)
    run=(timeout --kill-after=10 "$limit" "$@")
    exec > >(exec sed -u 's/^not ok \([0-9]* # SKIP\)/ok \1/') ;; # cmocka says "not ok" of a skipped test, which prove counts as failed
esac
[ -n "${BELAY_SANITIZER:-}" ] || exec "${run[@]}"

findings=$(mktemp -d /tmp/belay-findings-XXXXXX) || exit 1 # sanitizers take no quotes around a path, so not below TMPDIR
chmod 1777 "$findings" # ranks may run as other users
trap 'rm -rf "$findings"' EXIT
settings=()
for name in ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
  settings+=("$name=${!name:+${!name}:}log_exe_name=1:log_path=$findings/report")
done
# The processes of this test, known by the folder's name in their environment.
left() { grep -lF -- "log_path=$findings/" /proc/[0-9]*/environ 2>/dev/null | sed 's/[^0-9]//g'; }
env "${settings[@]}" "${run[@]}"
rc=$?
# A shim ends by itself after its test has: it looks for leaks when it exits, so that has to be waited for.
end=$((SECONDS + 20))
while [ -n "$(left)" ] && [ "$SECONDS" -lt "$end" ]; do sleep 0.05; done
for pid in $(left); do
  echo "# $1 left process $pid behind: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)" >&2
  rc=1
done
# Prints a report without the leaks that a library of tests/lsan.supp allocated itself; fails when nothing is left.
ours() {
  perl -0777 -ne '
    BEGIN { open my $f, "<", shift or die "lsan.supp: $!"; local $/ = "\n"; @library = map { /^leak:(\S+)/ ? quotemeta $1 : () } <$f> }
    my $library = join "|", @library;
    my $leak = qr/^(?:Direct|Indirect) leak of .*\n(?: +#0 .*\n)?( +#1 .*\n)?(?: +#\d+ .*\n)*\n?/m;
    s/$leak/$1 && $1 =~ m{[(][^()]*(?:$library)} ? "" : $&/ge;
    exit 1 unless /^(?:Direct|Indirect) leak of/m or !/ERROR: LeakSanitizer: detected memory leaks/;
    print' "$(dirname "$0")/lsan.supp" "$1"
}
for report in "$findings"/report*; do
  [ -e "$report" ] && found=$(ours "$report") || continue
  echo "# $1: what the sanitizer found in ${report#"$findings/report."}:" >&2 # PROGRAM.PID
  sed 's/^/# /' <<<"$found" >&2
  rc=1
done
exit "$rc"
