// The entry of the plugin as a library of its own.
#include "dit/bootstrap.h"

extern "C" __attribute__((visibility("default"))) const dit_exchange_plugin* dit_exchange_plugin_v1(
    uint32_t wanted) {
  return dit_exchange_bootstrap_plugin_v1(wanted);
}
