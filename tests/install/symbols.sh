#!/usr/bin/env bash
# symbols.sh LIBRARY PREFIX: the library defines dynamic symbols, and all of them begin with PREFIX.
set -euo pipefail
library=$1 prefix=$2
symbols=$(nm -D --defined-only "$library" | awk '{ print $3 }')
if [ -z "$symbols" ]; then
  echo "$library exports nothing"
  exit 1
fi
if others=$(grep -v "^$prefix" <<<"$symbols"); then
  echo "$library exports more than $prefix*:"
  c++filt <<<"$others" | head -50
  exit 1
fi
echo "$(wc -l <<<"$symbols") symbols, all $prefix*"
