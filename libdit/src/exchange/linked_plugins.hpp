/// Plugins that are linked in: "local", and those that a library brings along.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dit/exchange.h"

namespace dit {

/// From now on ExchangePlugin::load finds this one by its name, before any file. The entry of a name that is
/// there already is replaced.
void link_exchange_plugin(std::string_view name, dit_exchange_entry entry);

/// Null when none of that name is linked in.
[[nodiscard]] dit_exchange_entry linked_plugin(std::string_view name);
[[nodiscard]] std::vector<std::string> linked_plugin_names();

}  // namespace dit
