/* Linked into every program of ours. What was printed may be lost without a word, on a disk that is full: the
 * C library writes the rest when the program ends, and nobody looks. Such a program has failed. */
#define _GNU_SOURCE
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

static void report_lost_output(int status, void* unused) {
  (void)unused;
  errno = 0;
  const int lost = ferror(stdout);
  const int unwritten = fflush(stdout) != 0;
  if (status != 0 || (!lost && !unwritten && !close_reports_an_error())) return;
  fprintf(stderr, "%s: the standard output cannot be written%s%s\n", program_invocation_short_name,
          errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
  _exit(1);
}

/* What is registered first runs last, behind all that may still print. */
__attribute__((constructor(101))) static void watch_output(void) {
  (void)on_exit(report_lost_output, NULL);
}
