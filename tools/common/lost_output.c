/* Linked into every program of ours. What was printed may be lost without a word, on a disk that is full: the
 * C library writes the rest when the program ends, and nobody looks. Such a program has failed. */
#define _GNU_SOURCE
#include "lost_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Network file systems tell only when the file is closed; a copy of it will do. */
static int close_reports_an_error(void) {
  const int copy = dup(STDOUT_FILENO);
  return copy >= 0 && close(copy) != 0;
}

static int library_destructors_are_skipped = 0;
void skip_library_destructors(void) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  library_destructors_are_skipped = 1;
#endif
}

static void report_lost_output(void) {
  errno = 0;
  const int lost = ferror(stdout);
  const int unwritten = fflush(stdout) != 0;
  if (!lost && !unwritten && !close_reports_an_error()) return;
  fprintf(stderr, "%s: the standard output cannot be written%s%s\n", program_invocation_short_name,
          errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
  _exit(1);
}

static void end(int status, void* unused) {
  (void)unused;
  if (status == 0) report_lost_output();
  if (!library_destructors_are_skipped) return;
  (void)fflush(NULL);
  _exit(status);
}

/* What is registered first runs last, behind all that may still print. */
__attribute__((constructor(101))) static void watch_output(void) {
  (void)on_exit(end, NULL);
}
