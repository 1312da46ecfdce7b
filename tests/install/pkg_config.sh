#!/usr/bin/env bash
# pkg_config.sh TREE LIBDIR SOURCE BUILD VERSION: one compiler call with the flags of tapa.pc, one with those of dit.pc; what
# comes of it finds its libraries by itself.
set -euo pipefail
tree=$1 libdir=$2 source=$3 build=$4 version=$5
unset LD_LIBRARY_PATH LD_RUN_PATH
export PKG_CONFIG_PATH=$tree/$libdir/pkgconfig
mkdir -p "$build"

compile() { # PACKAGE SOURCE PROGRAM
  local found
  found=$(pkg-config --modversion "$1")
  [ "$found" = "$version" ] || { echo "$1.pc says version $found, expected $version"; exit 1; }
  # shellcheck disable=SC2046,SC2086
  $CC $CFLAGS "$2" -o "$3" $(pkg-config --cflags --libs "$1")
}
compile tapa "$source/consumer.c" "$build/consumer"
$MPIEXEC "$build/consumer"
compile dit "$source/dit_consumer.c" "$build/dit_consumer"
"$build/dit_consumer" local
$MPIEXEC "$build/dit_consumer" mpi
