/* A complete plugin of no use, for the broken_*.c to spoil. */
#include "dit/exchange.h"

static dit_status no_open(const dit_open_options* options, dit_context** context) {
  (void)options;
  (void)context;
  return DIT_ERROR_COMMUNICATION;
}
static dit_status no_close(dit_context* context) {
  return (void)context, DIT_OK;
}
static int zero(const dit_context* context) {
  return (void)context, 0;
}
static const char* no_name(const dit_context* context, int level) {
  return (void)context, (void)level, (void*)0;
}
static int zero_of(const dit_context* context, int peer) {
  return (void)context, (void)peer, 0;
}
static dit_status no_start(dit_context* context, const dit_exchange_call* call, dit_request** request) {
  return (void)context, (void)call, (void)request, DIT_ERROR_INTERNAL;
}
static dit_status no_test(dit_context* context, dit_request** request, int* done) {
  return (void)context, (void)request, (void)done, DIT_ERROR_INTERNAL;
}
static dit_status no_wait(dit_context* context, dit_request** request) {
  return (void)context, (void)request, DIT_ERROR_INTERNAL;
}
static dit_status no_split(dit_context* context, int colour, int key, dit_context** result) {
  return (void)context, (void)colour, (void)key, (void)result, DIT_ERROR_UNSUPPORTED;
}
static dit_status no_totals(const dit_context* context, dit_exchange_totals* totals) {
  return (void)context, (void)totals, DIT_ERROR_INTERNAL;
}
static size_t no_text(const dit_context* context, char* text, size_t bytes) {
  return (void)context, (void)text, (void)bytes, (size_t)0;
}
static void no_abort(dit_context* context, int exit_code) {
  (void)context, (void)exit_code;
}

#ifndef OPEN_ERROR
#define OPEN_ERROR ""
#endif
static const char* words(const dit_context* context) {
  return (void)context, OPEN_ERROR;
}

static dit_exchange_plugin broken_table(void) {
  const dit_exchange_plugin table = {.struct_size = sizeof(dit_exchange_plugin),
                                     .version = DIT_EXCHANGE_VERSION,
                                     .name = "broken",
                                     .description = "for tests",
                                     .open = no_open,
                                     .close = no_close,
                                     .rank = zero,
                                     .size = zero,
                                     .level_count = zero,
                                     .level_name = no_name,
                                     .level_of = zero_of,
                                     .slow_level = zero,
                                     .start = no_start,
                                     .test = no_test,
                                     .wait = no_wait,
                                     .split = no_split,
                                     .totals = no_totals,
                                     .describe = no_text,
                                     .last_error = words,
                                     .abort_job = no_abort};
  return table;
}

const dit_exchange_plugin* dit_exchange_plugin_v1(uint32_t wanted);

/* The entry of a plugin whose table differs from a complete one by a statement. */
#define BROKEN_PLUGIN(STATEMENT)                                       \
  const dit_exchange_plugin* dit_exchange_plugin_v1(uint32_t wanted) { \
    static dit_exchange_plugin table;                                  \
    (void)wanted;                                                      \
    table = broken_table();                                            \
    STATEMENT;                                                         \
    return &table;                                                     \
  }
