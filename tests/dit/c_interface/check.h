/* Checks that count failures and go on, so that ranks stay together. */
#ifndef DIT_TEST_CHECK_H
#define DIT_TEST_CHECK_H

#include <dit/dit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                               \
    }                                                                           \
  } while (0)

/* Without it nothing that follows makes sense. */
#define REQUIRE_OK(call)                                                                             \
  do {                                                                                               \
    const dit_status status_ = (call);                                                               \
    if (status_ != DIT_OK) {                                                                         \
      fprintf(stderr, "%s:%d: status %d: %s\n", __FILE__, __LINE__, (int)status_, dit_last_error()); \
      exit(1);                                                                                       \
    }                                                                                                \
  } while (0)

static inline void* allocate(size_t bytes) {
  void* memory = malloc(bytes > 0 ? bytes : 1);
  if (memory == NULL) exit(1);
  return memory;
}

/* A dense tensor. */
static inline dit_tensor dense(void* data, size_t bytes) {
  const dit_tensor tensor = {data, bytes, 0, 0, 0};
  return tensor;
}

static inline dit_status start(dit_transfer* transfer, dit_tensor source, dit_tensor target) {
  dit_transfer_call call = {.struct_size = sizeof call, .source = source, .target = target};
  return dit_transfer_start(transfer, &call);
}

#endif
