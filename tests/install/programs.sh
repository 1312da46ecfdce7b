#!/usr/bin/env bash
# programs.sh TREE VERSION: every installed program finds its libraries, prints its help and its version, without a build tree; the
# drop-in is found beside them; man pages are there for all programs or for none, and each has the program's options.
set -euo pipefail
tree=$1 version=$2
failed=0 count=0
run() { (cd / && env -u LD_LIBRARY_PATH timeout 60 "$@" 2>&1); }
for program in "$tree"/bin/*; do
  [ -f "$program" ] || continue
  count=$((count + 1)) name=${program##*/}
  if ! output=$(run "$program" --help); then
    echo "$program --help failed:"; echo "$output"; failed=1
  elif ! grep -qiE -- 'usage|\[--' <<<"$output"; then
    echo "$program --help prints neither usage nor options:"; echo "$output"; failed=1
  elif ! grep -qe --version <<<"$output"; then
    echo "$program --help does not name --version:"; echo "$output"; failed=1
  fi
  output=$(run "$program" --version) || { echo "$program --version failed:"; failed=1; }
  [ "$output" = "$name $version" ] || { echo "$program --version prints '$output', expected '$name $version'"; failed=1; }
  page=$tree/share/man/man1/$name.1
  if [ -d "${page%/*}" ] && ! grep -q 'version' "$page"; then echo "no man page with its options: $page"; failed=1; fi
done
for command in up run; do
  page=$tree/share/man/man1/tapa-cluster-$command.1
  if [ -d "${page%/*}" ] && [ -e "$tree/bin/tapa-cluster" ] && ! grep -q "usage: tapa..cluster $command" "$page"; then
    echo "no man page of tapa-cluster $command: $page"; failed=1
  fi
done
echo "$count programs"
[ $count -gt 0 ] || { echo "no program in $tree/bin"; failed=1; }
path=$("$tree/bin/tapa-preload-path")
[[ $path = "$(readlink -f "$tree")"/*/libtapa_preload.so ]] || { echo "tapa-preload-path prints $path"; failed=1; }
exit $failed
