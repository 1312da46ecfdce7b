/// From a plugin's status to ExchangeError.
#pragma once

#include "exchange/exchange.hpp"

namespace dit {

/// The plugin's words for a status that is not DIT_OK. To be asked for before the next call of the plugin.
[[nodiscard]] ExchangeError plugin_error(const dit_exchange_plugin& table, const dit_context* context,
                                         dit_status status, const char* function);

/// Throws them unless the status is DIT_OK.
void check(const dit_exchange_plugin& table, const dit_context* context, dit_status status,
           const char* function);

}  // namespace dit
