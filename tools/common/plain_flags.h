/* --help, --version and unknown options of programs that read their command line themselves: C, and what must
 * not need more than CUDA. To be asked before MPI, ranks and GPUs are. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Whether the usage has this option, with no letter or dash behind it. */
static inline bool plain_usage_names(const char* usage, const char* option, size_t length) {
  for (const char* at = strstr(usage, option); at != NULL; at = strstr(at + 1, option)) {
    if (strchr(" ]=|,;\n", at[length]) != NULL) return true;
  }
  return false;
}

/* --version. */
static inline bool plain_version(int argc, char** argv) {
  const char* const slash = strrchr(argv[0], '/');
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--version") != 0) continue;
    printf("%s %s\n", slash != NULL ? slash + 1 : argv[0], TAPA_PROJECT_VERSION);
    return true;
  }
  return false;
}

/* The status to end with, or -1 to go on. `usage` begins with "usage: NAME" and names all options. */
static inline int plain_flags(int argc, char** argv, const char* usage) {
  if (plain_version(argc, argv)) return 0;
  for (int i = 1; i < argc; ++i) {
    const char* const word = argv[i];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
      fputs(usage, stdout);
      return 0;
    }
    if (strncmp(word, "--", 2) != 0 || plain_usage_names(usage, word, strlen(word))) continue;
    fprintf(stderr, "%s: unknown option %s; --help names all\n", argv[0], word);
    return 2;
  }
  return -1;
}
