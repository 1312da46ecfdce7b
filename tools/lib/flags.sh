# Sourced by scripts: --help, --version and options that are not known. A script that has more to say than its head
# comment defines `usage` before it calls answer_flags "$@", and calls that before anything is done.
# shellcheck shell=bash
script_name=$(basename "$0")

# The version of the project.
project_version() {
  sed -n 's/^project(tapa VERSION \([0-9.]*\).*/\1/p' "$(dirname "${BASH_SOURCE[0]}")/../../CMakeLists.txt"
}

# The comment at the head of the script, as it was called.
usage() { printf 'usage: '; sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"; }

# answer_flags WORD...: ends the script where one of the words before -- is --help or --version.
answer_flags() {
  local word
  for word in "$@"; do
    case $word in
      --) return ;;
      -h|--help) usage; exit 0 ;;
      --version) echo "$script_name $(project_version)"; exit 0 ;;
    esac
  done
}

unknown_option() { echo "$script_name: unknown option $1; --help names all" >&2; exit 2; }
