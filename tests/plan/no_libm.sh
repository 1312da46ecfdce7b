#!/bin/sh
# Fails when libtapa calls a function of libm whose result may differ between processors: see plan/exact.hpp.
#   no_libm.sh NM ARCHIVE...
nm=$1
shift
# With the objects that have them, from "choose.cpp.o:" and "                 U exp".
found=$("$nm" -u "$@" | awk '
  /:$/ { object = $1 }
  $1 == "U" && $2 ~ /^(log|log2|log10|log1p|logb|exp|exp2|expm1|pow|cbrt|hypot|sin|cos|tan|tanh|atan2?|erf|[lt]gamma)[fl]?(@.*)?$/ {
    print object, $2
  }')
[ -z "$found" ] && exit 0
echo "not the same on all processors:"
echo "$found"
exit 1
