#!/usr/bin/env bash
# What `make install` puts where: programs, manual pages that know every option of --help, and units that systemd understands.
. "$(dirname "$0")/../lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BELAY_BIN%/bin}
unset MAKEFLAGS MAKELEVEL # of the make that runs the tests
plan 13
cd "$SCRATCH" || exit 1

install_here() { # nothing is built again: the programs are those under test
  local rc=0
  make -C "$root" --no-print-directory BUILD="$build" PREFIX=/usr DESTDIR="$SCRATCH/into" "$1" >out 2>&1 || { rc=$?; diag "$(cat out)"; }
  return $rc
}
ok "make install" install_here install
for p in belay belayd belay-agent belay-shim belay-train; do
  page=$(echo into/usr/share/man/man?/$p.?)
  # the page without its markup
  sed 's/\\f[BIRP]//g; s/\\-/-/g' "$page" >page
  {
    "into/usr/bin/$p" --help 2>&1
    [ $p != belay ] || for c in $("into/usr/bin/$p" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do belay "$c" --help; echo " $c"; done
  } >help
  missing=$({ grep -oE '\B--[a-z][a-z-]+' help; [ $p != belay ] || sed -n 's/^ \([a-z]*\)$/\1/p' help; } | sort -u | while read -r word; do grep -qwF -- "$word" page || echo "$word"; done)
  is "$page has every option of --help" "$missing" ""
  if command -v man >/dev/null; then
    LC_ALL=C man --warnings -l "$page" >shown 2>complaints
    like "$page formats without complaint" "$(cat complaints shown | head -n 3)" '^NAME'
  else
    skip "$page formats without complaint" "there is no man here"
  fi
done
sed "s,/usr/bin/,$SCRATCH/into/usr/bin/," -i into/usr/lib/systemd/system/*.service
if command -v systemd-analyze >/dev/null; then
  touch env; sed -i "s,/etc/default/belay-agent,$PWD/env," into/usr/lib/systemd/system/belay-agent.service
  is "the units are sound" "$(systemd-analyze verify --man=no into/usr/lib/systemd/system/*.service 2>&1 | grep -F "$SCRATCH")" ""
else
  skip "the units are sound" "there is no systemd-analyze here"
fi
install_here uninstall
is "make uninstall leaves nothing" "$(find into -type f)" ""
