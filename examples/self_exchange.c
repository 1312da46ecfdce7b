/* A small exchange plugin: one rank, which exchanges with itself. A frame for plugins in C; it passes
 *   dit-conformance --plugin PATH/libdit-exchange-self.so */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dit/exchange.h"
#pragma GCC diagnostic ignored "-Wunused-parameter" /* one rank needs few of them */

struct dit_context {
  dit_exchange_totals totals;
};

static _Thread_local char words[256]; /* for last_error */

static dit_status refuse(dit_status status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(words, sizeof(words), format, values);
  va_end(values);
  return status;
}

#define REFUSE_IF(WRONG, ...) \
  if (WRONG) return refuse(DIT_ERROR_ARGUMENT, __VA_ARGS__)

static dit_status new_context(dit_context** context) {
  dit_context* made = calloc(1, sizeof(dit_context));
  if (made == NULL) return refuse(DIT_ERROR_MEMORY, "out of memory");
  made->totals.struct_size = sizeof(dit_exchange_totals);
  *context = made;
  return DIT_OK;
}

static dit_status open_context(const dit_open_options* options, dit_context** context) {
  REFUSE_IF(options == NULL, "options is null");
  REFUSE_IF(context == NULL, "context is null");
  REFUSE_IF(options->struct_size < offsetof(dit_open_options, config) + sizeof(options->config),
            "options.struct_size is %zu", options->struct_size);
  REFUSE_IF(!(options->timeout_seconds >= 0), "options.timeout_seconds is %g", options->timeout_seconds);
  REFUSE_IF(options->config != NULL && *options->config != '\0', "config has '%s', there are no settings",
            options->config);
  return new_context(context);
}

static dit_status close_context(dit_context* context) {
  free(context);
  return DIT_OK;
}

/* The rank. */
static int zero(const dit_context* context) {
  return 0;
}

/* The size, the number of levels, and the first slow level: none. */
static int one(const dit_context* context) {
  return 1;
}

static int level_of(const dit_context* context, int peer) {
  return 0;
}

static const char* level_name(const dit_context* context, int level) {
  return level == 0 ? "world" : NULL;
}

/* The rank's own block always travels whole, so lists of rows are looked at no further. */
static dit_status check_selection(const dit_row_selection* s, size_t bytes) {
  REFUSE_IF(s->struct_size < offsetof(dit_row_selection, recv_rows) + sizeof(s->recv_rows),
            "selection.struct_size is %zu", s->struct_size);
  REFUSE_IF(s->row_bytes == 0, "selection.row_bytes is 0");
  REFUSE_IF(bytes % s->row_bytes != 0, "%zu bytes are no multiple of row_bytes, %zu", bytes, s->row_bytes);
  REFUSE_IF(s->boundary < 0 || s->boundary > 1, "selection.boundary is %d, expected 0 or 1", s->boundary);
  REFUSE_IF(s->send_counts == NULL || s->send_rows == NULL, "selection.send_counts or send_rows is null");
  REFUSE_IF(s->recv_counts == NULL || s->recv_rows == NULL, "selection.recv_counts or recv_rows is null");
  return DIT_OK;
}

static dit_status check_call(const dit_exchange_call* call) {
  REFUSE_IF(call->channel != 0, "call.channel is %d, this plugin opens none", call->channel);
  REFUSE_IF(call->flags & ~DIT_EXCHANGE_BLOCKING, "call.flags is %u", call->flags);
  REFUSE_IF(call->memory_kind < DIT_MEMORY_HOST || call->memory_kind > DIT_MEMORY_CUDA,
            "call.memory_kind is %d", call->memory_kind);
  REFUSE_IF(call->device < 0 || (call->device > 0 && call->memory_kind == DIT_MEMORY_HOST),
            "call.device is %d", call->device);
  REFUSE_IF(call->send_blocks == NULL, "call.send_blocks is null");
  REFUSE_IF(call->recv_blocks == NULL, "call.recv_blocks is null");
  const dit_block from = call->send_blocks[0], to = call->recv_blocks[0];
  REFUSE_IF(from.bytes != to.bytes, "call.recv_blocks[0] has %zu bytes, expected %zu", to.bytes, from.bytes);
  REFUSE_IF(from.bytes > 0 && call->send == NULL, "call.send is null");
  REFUSE_IF(to.bytes > 0 && call->recv == NULL, "call.recv is null");
  const uintptr_t source = (uintptr_t)call->send + from.offset, target = (uintptr_t)call->recv + to.offset;
  REFUSE_IF(source + from.bytes < from.offset, "call.send_blocks[0] ends past the end of memory");
  REFUSE_IF(target + to.bytes < to.offset, "call.recv_blocks[0] ends past the end of memory");
  REFUSE_IF(source < target + to.bytes && target < source + from.bytes,
            "call.recv_blocks[0] overlaps send_blocks[0]");
  return call->selection == NULL ? DIT_OK : check_selection(call->selection, from.bytes);
}

/* A caller may have been built for a shorter struct: what it does not have is zero. */
static dit_status read_call(const dit_exchange_call* given, dit_exchange_call* call) {
  const size_t least = offsetof(dit_exchange_call, layout_id) + sizeof(call->layout_id);
  REFUSE_IF(given == NULL, "call is null");
  REFUSE_IF(given->struct_size < least, "call.struct_size is %zu, expected %zu or more", given->struct_size,
            least);
  memset(call, 0, sizeof(*call));
  memcpy(call, given, given->struct_size < sizeof(*call) ? given->struct_size : sizeof(*call));
  return DIT_OK;
}

static dit_status start(dit_context* context, const dit_exchange_call* given, dit_request** request) {
  REFUSE_IF(request == NULL, "request is null");
  *request = NULL; /* complete when start returns */
  dit_exchange_call whole;
  const dit_exchange_call* const call = &whole;
  dit_status status = read_call(given, &whole);
  if (status == DIT_OK) status = check_call(call);
  if (status != DIT_OK) return status;
  if (call->memory_kind != DIT_MEMORY_HOST)
    return refuse(DIT_ERROR_UNSUPPORTED, "only host memory: call.memory_kind is %d", call->memory_kind);
  if (call->send_blocks[0].bytes > 0)
    memcpy((char*)call->recv + call->recv_blocks[0].offset,
           (const char*)call->send + call->send_blocks[0].offset, call->send_blocks[0].bytes);
  ++context->totals.exchanges;
  return DIT_OK;
}

static dit_status test(dit_context* context, dit_request** request, int* done) {
  REFUSE_IF(request == NULL, "request is null");
  REFUSE_IF(done == NULL, "done is null");
  *done = 1;
  return DIT_OK;
}

static dit_status wait(dit_context* context, dit_request** request) {
  REFUSE_IF(request == NULL, "request is null");
  return DIT_OK;
}

static dit_status split(dit_context* context, int colour, int key, dit_context** result) {
  REFUSE_IF(result == NULL, "result is null");
  *result = NULL;
  return colour < 0 ? DIT_OK : new_context(result);
}

static dit_status totals(const dit_context* context, dit_exchange_totals* totals) {
  REFUSE_IF(totals == NULL, "totals is null");
  const size_t least = offsetof(dit_exchange_totals, wait_seconds) + sizeof(totals->wait_seconds);
  const size_t known = totals->struct_size < sizeof(*totals) ? totals->struct_size : sizeof(*totals);
  REFUSE_IF(known < least, "totals.struct_size is %zu, expected %zu or more", known, least);
  memcpy(totals, &context->totals, known);
  totals->struct_size = known;
  return DIT_OK;
}

static size_t describe(const dit_context* context, char* text, size_t bytes) {
  return (size_t)snprintf(text, bytes, "self: one rank");
}

static const char* last_error(const dit_context* context) {
  return words;
}
static void abort_job(dit_context* context, int exit_code) {} /* the caller ends the process */

static const dit_exchange_plugin table = {.struct_size = sizeof(dit_exchange_plugin),
                                          .version = DIT_EXCHANGE_VERSION,
                                          .name = "self",
                                          .description = "one rank that exchanges with itself",
                                          .open = open_context,
                                          .close = close_context,
                                          .rank = zero,
                                          .size = one,
                                          .level_count = one,
                                          .level_name = level_name,
                                          .level_of = level_of,
                                          .slow_level = one,
                                          .start = start,
                                          .test = test,
                                          .wait = wait,
                                          .split = split,
                                          .totals = totals,
                                          .describe = describe,
                                          .last_error = last_error,
                                          .abort_job = abort_job};

/* The one function that is exported. */
const dit_exchange_plugin* dit_exchange_plugin_v1(uint32_t wanted);
const dit_exchange_plugin* dit_exchange_plugin_v1(uint32_t wanted) {
  return wanted == DIT_EXCHANGE_VERSION ? &table : NULL;
}
