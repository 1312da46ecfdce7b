#!/usr/bin/env bash
# programs.sh TREE VERSION: every installed program finds its libraries and prints its help, without a build tree; tools say
# their version; the drop-in is found beside them.
set -euo pipefail
tree=$1 version=$2
failed=0 count=0
for program in "$tree"/bin/*; do
  [ -f "$program" ] && [ "${program##*/}" != tapa-preload-path ] || continue
  count=$((count + 1))
  if ! output=$(cd / && env -u LD_LIBRARY_PATH timeout 60 "$program" --help 2>&1); then
    echo "$program --help failed:"; echo "$output"; failed=1
  elif ! grep -qiE -- 'usage|\[--' <<<"$output"; then
    echo "$program --help prints neither usage nor options:"; echo "$output"; failed=1
  fi
done
for name in tapa-info tapa-plan tapa-tune tapa-sim tapa_alltoall dit dit-conformance; do
  [ -e "$tree/bin/$name" ] || continue
  output=$(timeout 60 "$tree/bin/$name" --version 2>&1) || { echo "$name --version ends with $?"; failed=1; }
  [ "$output" = "$name $version" ] || { echo "$name --version prints '$output', expected '$name $version'"; failed=1; }
done
echo "$count programs"
[ $count -gt 0 ] || { echo "no program in $tree/bin"; failed=1; }
path=$("$tree/bin/tapa-preload-path")
[[ $path = "$(readlink -f "$tree")"/*/libtapa_preload.so ]] || { echo "tapa-preload-path prints $path"; failed=1; }
exit $failed
