#!/usr/bin/env bash
# examples.sh TREE SOURCE BUILD: the examples as a project of their own, built against the installed tree and run.
set -euo pipefail
tree=$1 source=$2 build=$3
export CXXFLAGS=$CFLAGS
unset DIT_PLUGIN_PATH  # plugins are found beside the library

rm -rf "$build"
"$CMAKE" -S "$source" -B "$build" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_BUILD_TYPE=Release \
  -DMPI_C_COMPILER="$MPI_C_COMPILER" -DMPIEXEC_EXECUTABLE="$MPIEXEC_EXECUTABLE"
"$CMAKE" --build "$build"
$MPIEXEC "$build/transpose"
$MPIEXEC "$build/overlap"
"$build/dit_exchange" local
$MPIEXEC "$build/dit_exchange" mpi
$MPIEXEC "$build/dit_exchange" tapa
"$build/dit_exchange" "$build/libdit-exchange-self.so"
"$tree/bin/dit-conformance" --plugin "$build/libdit-exchange-self.so"
