/// Checks of the table that a plugin hands out, before anything in it is called.
#pragma once

#include <string>

#include "dit/exchange.h"

namespace dit {

/// Asks an entry function for its table; throws ExchangeError when it is not one of this interface version,
/// or is incomplete. `origin` is the plugin's file, or other words for where it comes from.
const dit_exchange_plugin& checked_table(dit_exchange_entry entry, const std::string& origin);

}  // namespace dit
