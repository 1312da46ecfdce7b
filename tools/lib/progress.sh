# Sourced by scripts that run for minutes: begin_progress STEPS, then step WHAT before each; tools/lib/progress.py says the same.
# shellcheck shell=bash
begin_progress() { progress_steps=$1 progress_done=0 progress_began=$SECONDS; }

step() {
  progress_done=$((progress_done + 1))
  echo "$(basename "$0"): $progress_done of $progress_steps, $((SECONDS - progress_began)) s: $*" >&2
}
