#!/usr/bin/env bash
# cmake_package.sh TREE SOURCE BUILD VERSION: a project that knows nothing but find_package(tapa) and
# find_package(dit).
set -euo pipefail
tree=$1 source=$2 build=$3 version=$4
configure() {
  "$CMAKE" -S "$source" -B "$build" -DCMAKE_PREFIX_PATH="$tree" -DWANTED_VERSION="$1" -DCMAKE_BUILD_TYPE=Release \
    -DMPI_C_COMPILER="$MPI_C_COMPILER" -DMPIEXEC_EXECUTABLE="$MPIEXEC_EXECUTABLE"
}
export CXXFLAGS=$CFLAGS

rm -rf "$build"
configure "$version"
"$CMAKE" --build "$build"
$MPIEXEC "$build/consumer_c"
$MPIEXEC "$build/consumer_cpp"
"$build/dit_consumer" local
$MPIEXEC "$build/dit_consumer" mpi
"$build/dit_consumer_cpp"

rm -rf "$build"
if output=$(configure 99.0 2>&1); then
  echo "version 99.0 was accepted"
  exit 1
fi
grep -q "version: ${version}" <<<"$output" || { echo "the refusal of version 99.0 does not name $version:"; echo "$output"; exit 1; }
