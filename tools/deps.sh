#!/usr/bin/env bash
# Installs the Debian packages that are missing, says which, and uses sudo when not root.
# usage: deps.sh build (what `make` and `make demo` need) | deps.sh check (also what `make check` needs)
set -euo pipefail
packages=(build-essential pkg-config perl procps
  libevent-dev libjansson-dev libyaml-dev libsqlite3-dev libcurl4-openssl-dev libssl-dev libxxhash-dev libexpat1-dev libutf8proc-dev
  libpmix-dev libopenmpi-dev openmpi-bin libhwloc-dev libopenblas-openmp-dev)
[ "${1:-check}" = build ] || packages+=(libcmocka-dev clang-format clang-tidy libomp-dev cppcheck sqlite3 jq)
# tests/interop: any Node.js with npm will do; packages of others than Debian have npm inside and conflict with Debian's.
if [ "${1:-check}" != build ] && ! { command -v node && command -v npm; } >/dev/null; then packages+=(nodejs npm); fi
missing=()
for p in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "Belay needs these Debian packages: ${missing[*]}"; echo "Install them as root (apt-get install …), then run this again."; exit 1; } >&2
  sudo=(sudo)
fi
echo "Installing Debian packages that are missing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2068
"${sudo[@]}" apt-get update -q >/dev/null
"${sudo[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
