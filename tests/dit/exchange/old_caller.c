/* A caller that was built when the interface was young. What lies behind its structs is none of the plugin's
 * business. */
#include "old_caller.h"

#include <string.h>

#include "first_version/exchange.h"

const dit_exchange_plugin* dit_exchange_local_plugin_v1(uint32_t wanted);

size_t old_table_bytes(void) {
  return sizeof(dit_exchange_plugin);
}

static int all_are(const unsigned char* bytes, size_t count, unsigned char value) {
  for (size_t i = 0; i < count; ++i)
    if (bytes[i] != value) return 0;
  return 1;
}

#define REQUIRE(RIGHT) \
  if (!(RIGHT)) return #RIGHT

const char* old_exchange(void) {
  struct {
    dit_open_options known;
    unsigned char behind[64];
  } options;
  struct {
    dit_exchange_call known;
    unsigned char behind[64];
  } call;
  struct {
    dit_exchange_totals known;
    unsigned char behind[64];
  } totals;
  const dit_exchange_plugin* plugin = dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
  const dit_block block = {0, 5};
  const char sent[] = "four";
  char received[sizeof(sent)] = "";
  dit_context* context = NULL;
  dit_request* request = NULL;

  memset(&options, 0xff, sizeof(options));
  memset(&options.known, 0, sizeof(options.known));
  options.known.struct_size = sizeof(options.known);
  REQUIRE(plugin != NULL && plugin->open(&options.known, &context) == DIT_OK);

  memset(&call, 0xff, sizeof(call));
  memset(&call.known, 0, sizeof(call.known));
  call.known.struct_size = sizeof(call.known);
  call.known.send = sent;
  call.known.recv = received;
  call.known.send_blocks = call.known.recv_blocks = &block;
  REQUIRE(plugin->start(context, &call.known, &request) == DIT_OK);
  REQUIRE(plugin->wait(context, &request) == DIT_OK && request == NULL);
  REQUIRE(strcmp(received, "four") == 0);

  memset(&totals, 0xff, sizeof(totals));
  totals.known.struct_size = sizeof(totals.known);
  REQUIRE(plugin->totals(context, &totals.known) == DIT_OK && totals.known.exchanges == 1);
  REQUIRE(totals.known.struct_size == sizeof(totals.known));
  REQUIRE(all_are(totals.behind, sizeof(totals.behind), 0xff));
  REQUIRE(plugin->close(context) == DIT_OK);
  return "";
}
