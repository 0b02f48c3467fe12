#!/usr/bin/env bash
# Packs what belay-train and its tests are built with and run on (headers, libraries, Open MPI) from this Debian machine's packages into one archive, so
# that tests/gpu/run.sh can build on a GPU machine where nothing can be installed.
#   pack.sh [FILE]      default build/gpu-root.tar.xz; unpacked, it is a folder `gpu-root` with env.sh to source
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/gpu-root.tar.xz}
packages=(libevent-dev libjansson-dev libyaml-dev libssl-dev libxxhash-dev libutf8proc-dev libhwloc-dev libpmix-dev libopenmpi-dev libopenmpi3
  openmpi-bin openmpi-common libpmix2 libopenblas-openmp-dev libopenblas0-openmp libcmocka-dev pkgconf-bin pkgconf)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/gpu-root
mkdir -p "$root"
# put FILE: a copy under the same path, once; a link becomes one within the folder (alternatives lead out of it)
put() {
  local file
  file=$(readlink -f "$1")
  [ -e "$root/$file" ] || { mkdir -p "$root/$(dirname "$file")" && cp --preserve=mode "$file" "$root/$file"; }
  [ "$1" = "$file" ] || [ -e "$root/$1" ] || { mkdir -p "$root/$(dirname "$1")" && ln -srf "$root/$file" "$root/$1"; }
}
for p in "${packages[@]}"; do
  dpkg-query -W "$p" >/dev/null 2>&1 || { [ "$p" = pkgconf-bin ] && continue; echo "pack.sh: the package $p is not installed; run make deps" >&2; exit 1; }
  while read -r file; do
    case $file in
      *.a | */share/doc/* | */share/man/* | */share/lintian/* | */fortran/* | */vtrace/* | */openshmem* | *liboshmem* | *.mod) ;;
      *liblapack* | *_ucx.so | *_ofi.so | *_psm*.so | *_usnic.so | *_openib.so | *verbs* | *libmpi_java* | *libmpi_mpifh* | *libmpi_usempi*) ;; # networks, Fortran, Java
      /usr/include/* | /usr/lib/* | /usr/share/openmpi/* | /usr/share/pmix/* | /etc/openmpi/* | /usr/bin/*) if [ -f "$file" ]; then put "$file"; fi ;;
    esac
  done < <(dpkg -L "$p")
done
libs=usr/lib/x86_64-linux-gnu
# names that update-alternatives made: no package lists them
for file in /$libs/libopenblas.so /$libs/libopenblas.so.0 /$libs/pkgconfig/openblas.pc /$libs/libmpi.so /$libs/pkgconfig/ompi-c.pc \
  /usr/include/x86_64-linux-gnu/mpi /usr/bin/mpirun /usr/bin/orted; do
  if [ -d "$file" ]; then mkdir -p "$root$file" && cp -rL "$file/." "$root$file/"; elif [ -e "$file" ]; then put "$file"; fi
done
# and every library that these load, but for libc's own and the compiler's
while read -r file; do
  case $file in
    */libc.so* | */libm.so* | */ld-linux* | */libpthread.so* | */libdl.so* | */librt.so* | */libstdc++* | */libgcc_s* | */libgomp*) ;;
    *) if [ ! -e "$root/$libs/${file##*/}" ]; then mkdir -p "$root/$libs" && put "$file" && { [ -e "$root/$libs/${file##*/}" ] || ln -srf "$root/$(readlink -f "$file")" "$root/$libs/${file##*/}"; }; fi ;;
  esac
done < <(find "$root" -type f \( -name '*.so*' -o -perm -u+x \) -exec ldd {} + 2>/dev/null | awk '$3 ~ /^\// {print $3}' | sort -u)
cat >"$root/env.sh" <<'END'
# Sourced: builds and runs with this folder's headers, libraries and Open MPI.
gpu_root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
libs=$gpu_root/usr/lib/x86_64-linux-gnu
export PATH=$gpu_root/usr/bin:$PATH
export LD_LIBRARY_PATH=$libs:$libs/openmpi/lib:$libs/pmix2/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LIBRARY_PATH=$libs:$libs/openmpi/lib:$libs/pmix2/lib
export CPATH=$gpu_root/usr/include:$gpu_root/usr/include/x86_64-linux-gnu${CPATH:+:$CPATH}
export PKG_CONFIG_PATH=$libs/pkgconfig PKG_CONFIG_SYSROOT_DIR=$gpu_root
export OPAL_PREFIX=$libs/openmpi OPAL_SYSCONFDIR=$gpu_root/etc/openmpi OPAL_PKGDATADIR=$gpu_root/usr/share/openmpi OPAL_LIBDIR=$libs/openmpi/lib
export OPAL_BINDIR=$gpu_root/usr/bin PMIX_INSTALL_PREFIX=$libs/pmix2
END
mkdir -p "$(dirname "$out")"
XZ_OPT="-1 -T0" tar -C "$work" -cJf "$out" gpu-root
du -h "$out" | awk '{print $2 ": " $1}'
