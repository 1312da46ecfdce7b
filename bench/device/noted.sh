# Sourced by scripts that check and measure on GPUs: what they tried, how long it took and how it ended, a line for each in the file
# $noted, if that is not empty. bench/device/report.py reads them. A script that is stopped ends what it runs by `limited`.
# shellcheck shell=bash
noted='' noted_part='' failed=0 running=''

# note WHAT BEGAN RESULT WHY: RESULT is passed, failed or skipped.
note() {
  [ -z "$noted" ] || printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$noted_part" "${1//[$'\t\n']/ }" "$2" "$EPOCHREALTIME" "$3" \
    "${4//[$'\t\n']/ }" >>"$noted"
}

# limited [-k SECONDS] SECONDS COMMAND...: its exit status, 124 or 137 when the time is over. What does not end then is killed after 5
# seconds, or those of -k. It and timeout are a process group of their own, which Ctrl-C at a terminal does not reach: so the traps.
limited() {
  timeout -k 5 "$@" &
  running=$!
  wait "$running"
  local status=$?
  running=''
  return $status
}
stop() { # the number of a signal
  trap '' INT TERM HUP
  local run
  run=${running:-$(jobs -p)}  # the signal may come before its number is noted
  # shellcheck disable=SC2086
  # To its group, too: timeout may not know its program yet, and would leave it.
  if [ -n "$run" ]; then kill -TERM $run 2>/dev/null; kill -TERM -- -${run//$'\n'/ -} 2>/dev/null; wait $run 2>/dev/null; fi
  exit $((128 + $1))
}
trap 'stop 2' INT
trap 'stop 15' TERM
trap 'stop 1' HUP

skipped() { # WHAT WHY
  echo "skipped, $1: $2"
  note "$1" "$EPOCHREALTIME" skipped "$2"
}

# tried WHAT COMMAND...: runs it, says when it fails and counts that; its exit status.
tried() {
  local what=$1 began=$EPOCHREALTIME status
  shift
  "$@"
  status=$?
  case $status in
    0) note "$what" "$began" passed '' ;;
    124|137) note "$what" "$began" failed 'the time was over' ;;
    *) note "$what" "$began" failed "exit status $status" ;;
  esac
  [ $status -eq 0 ] || { failed=$((failed + 1)); echo "FAILED: $what"; }
  return $status
}

# The folder of PyTorch's package of NCCL, if there is one.
nccl_of_python() {
  python3 -c 'import importlib.util as u; print(u.find_spec("nvidia.nccl").submodule_search_locations[0])' 2>/dev/null || true
}

# library_of_nccl FOLDER: the library of that package, else the one that the system finds.
library_of_nccl() {
  if [ -n "$1" ] && [ -e "$1/lib/libnccl.so.2" ]; then echo "$1/lib/libnccl.so.2"; else echo libnccl.so.2; fi
}

# build_whole FOLDER NCCL TARGET...: targets of the whole project, for this machine's GPUs; 77, with a line: it cannot be configured.
build_whole() {
  local build=$1 nccl=$2
  shift 2
  mkdir -p "$(dirname "$build")"
  limited 600 cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPA_CUDA=ON -DTAPA_BUILD_TESTS=OFF -DTAPA_BUILD_EXAMPLES=OFF \
    -DDIT_ENGINE=OFF \
    -DCMAKE_CUDA_ARCHITECTURES="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)" \
    ${nccl:+-DTAPA_NCCL_INCLUDE=$nccl/include} >"$build.log" 2>&1 ||
    { skipped "the whole project" "cmake says: $(grep -A3 'CMake Error' "$build.log" | tail -1)"; return 77; }
  tried "building the whole project" limited 3600 cmake --build "$build" --parallel --target "$@" >>"$build.log" 2>&1 ||
    { tail -40 "$build.log"; return 2; }
}
