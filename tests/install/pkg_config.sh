#!/usr/bin/env bash
# pkg_config.sh TREE LIBDIR SOURCE BUILD VERSION: one compiler call with the flags of tapa.pc.
set -euo pipefail
tree=$1 libdir=$2 source=$3 build=$4 version=$5
export PKG_CONFIG_PATH=$tree/$libdir/pkgconfig
mkdir -p "$build"

found=$(pkg-config --modversion tapa)
[ "$found" = "$version" ] || { echo "tapa.pc says version $found, expected $version"; exit 1; }
# shellcheck disable=SC2046,SC2086
$CC $CFLAGS "$source/consumer.c" -o "$build/consumer" $(pkg-config --cflags --libs tapa) \
  -Wl,-rpath,"$(pkg-config --variable=libdir tapa)"
$MPIEXEC "$build/consumer"
