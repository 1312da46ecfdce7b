/* Serves later versions only. */
#include "dit/exchange.h"
const dit_exchange_plugin* dit_exchange_plugin_v1(uint32_t wanted);
const dit_exchange_plugin* dit_exchange_plugin_v1(uint32_t wanted) {
  return (void)wanted, (void*)0;
}
