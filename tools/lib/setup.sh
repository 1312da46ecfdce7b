# Sourced by tools/test and tools/demo: packages, a safe environment, configure and build.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
jobs=${JOBS:-$(nproc)}
cuda=''
# shellcheck source=tools/lib/flags.sh
. "$root/tools/lib/flags.sh"

say() { printf '\n==> %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Names of the packages of some groups of packages.txt.
packages_of() {
  local group
  for group in "$@"; do awk -v group="$group" '$1 == group { print $2 }' "$root/tools/packages.txt"; done
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Of the packages named, those that are not installed.
missing_of() {
  local package
  for package in "$@"; do is_installed "$package" || echo "$package"; done
}

# How to become root without asking: prints a command prefix ("" for root itself), fails when there is none.
root_prefix() {
  if [ "$(id -u)" = 0 ]; then echo; return; fi
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then echo sudo; return; fi
  if command -v sudo >/dev/null && [ -t 0 ]; then echo sudo; return; fi
  return 1
}

# ensure_packages NEEDED OPTIONAL: installs what is missing of these groups (words between blanks). Missing optional packages
# that cannot be installed are named and left out; missing needed ones end the script with the command that would install them.
ensure_packages() {
  local missing needed prefix
  if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian system: see tools/packages.txt for what is needed; the configuration names what it does not find"
    return
  fi
  # shellcheck disable=SC2046,SC2086
  missing=$(missing_of $(packages_of $1 $2))
  if [ -z "$missing" ]; then echo "all packages are installed"; return; fi
  echo "missing:" $missing
  if [ -z "${NO_INSTALL:-}" ] && prefix=$(root_prefix) && command -v apt-get >/dev/null; then
    apt_install "$prefix" $missing
  else
    echo "not installing (no root, no sudo, or --no-install)"
  fi
  # shellcheck disable=SC2046,SC2086
  needed=$(missing_of $(packages_of $1))
  if [ -n "$needed" ]; then
    die "needed packages are missing; install them with
    apt-get install --no-install-recommends" $needed
  fi
  # shellcheck disable=SC2046,SC2086
  missing=$(missing_of $(packages_of $2))
  [ -z "$missing" ] || echo "going on without:" $missing
}

# apt_install PREFIX PACKAGE...: all at once, else one by one, so that one bad package does not cost the others.
apt_install() {
  local prefix=$1 package
  shift
  local apt="$prefix env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends"
  $apt update || echo "apt-get update failed; trying with the lists that are there"
  if ! $apt install "$@"; then
    for package in "$@"; do $apt install "$package" || true; done
  fi
}

# MPI as root, more ranks than cores, no GPU; nothing of the caller's that changes what is run.
safe_environment() {
  local name
  for name in $(compgen -e | grep '^TAPA_' || true); do unset "$name"; done
  unset LD_PRELOAD
  export LC_ALL=C.UTF-8
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export PSM2_DEVICES=self,shm  # else Open MPI sets it in MPI_Init while its own thread reads the environment
  export OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_opal_warn_on_missing_libcuda=0
}

# Kernels take minutes to compile: only where a GPU is, for that one, or where `cuda` is set. Then nobody runs them, and they are not
# optimised, which takes two thirds of that time.
cuda_settings() {
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
  if [ -n "$architecture" ]; then
    printf '%s\n' -DTAPA_CUDA=AUTO "-DCMAKE_CUDA_ARCHITECTURES=$architecture" -DCMAKE_CUDA_FLAGS=
  elif [ -n "$cuda" ]; then
    printf '%s\n' -DTAPA_CUDA=AUTO -DCMAKE_CUDA_ARCHITECTURES=80 '-DCMAKE_CUDA_FLAGS=-Xcicc -O1 -Xptxas -O0'
  else
    echo -DTAPA_CUDA=OFF
  fi
}

# build_preset PRESET [TARGET...]: configures and builds into build/PRESET, everything unless targets are named.
build_preset() {
  local preset=$1
  shift
  say "configure $preset"
  local settings
  mapfile -t settings < <(cuda_settings)
  (cd "$root" && cmake --preset "$preset" "${settings[@]}") || return 1
  say "build $preset${*:+: $*} ($jobs jobs)"
  (cd "$root" && cmake --build --preset "$preset" --parallel "$jobs" ${*:+--target "$@"})
}
