#!/usr/bin/env bash
# install_tree.sh CMAKE BUILD TREE LIBDIR: installs, moves the tree to TREE, and looks for what must be in it.
set -euo pipefail
cmake=$1 build=$2 tree=$3 libdir=$4

rm -rf "$tree" "$tree.first"
"$cmake" --install "$build" --prefix "$tree.first" --strip >/dev/null  # debug information names the build's folder
mv "$tree.first" "$tree"

expected=(include/tapa/tapa.h "$libdir/libtapa.so" "$libdir/pkgconfig/tapa.pc" "$libdir/cmake/tapa/tapa-config.cmake"
  "$libdir/cmake/tapa/tapa-config-version.cmake" share/doc/tapa/LICENSE share/doc/tapa/README.md share/doc/tapa/docs/reference.md bin/tapa-cluster bin/tapa-preload-path
  "$libdir/libtapa_preload.so" share/tapa/machines/aurora.json
  include/dit/bootstrap.h include/dit/dit.h include/dit/exchange.h "$libdir/libdit.so" "$libdir/pkgconfig/dit.pc"
  "$libdir/cmake/dit/dit-config.cmake" "$libdir/cmake/dit/dit-config-version.cmake" "$libdir/libdit-exchange-mpi.so"
  "$libdir/libdit-exchange-tapa.so" "$libdir/libdit-exchange-bootstrap.so" bin/dit-conformance)
missing=0
for file in "${expected[@]}"; do
  [ -e "$tree/$file" ] || { echo "not installed: $file"; missing=1; }
done
# Nothing in it may point back to where it was built or first installed.
if grep -rlF -e "$tree.first" -e "$build" "$tree" | grep -v '/debug/'; then
  echo "the files above contain $tree.first or $build: the tree cannot be moved"
  missing=1
fi
exit $missing
