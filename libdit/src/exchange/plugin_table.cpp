#include "exchange/plugin_table.hpp"

#include <array>
#include <utility>

#include "exchange/exchange.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

using std::to_string;

// Name of the first function that is null, or null when all are there that every plugin has.
const char* missing_function(const dit_exchange_plugin& table) {
  const std::array functions{std::pair{"open", table.open != nullptr},
                             std::pair{"close", table.close != nullptr},
                             std::pair{"rank", table.rank != nullptr},
                             std::pair{"size", table.size != nullptr},
                             std::pair{"level_count", table.level_count != nullptr},
                             std::pair{"level_name", table.level_name != nullptr},
                             std::pair{"level_of", table.level_of != nullptr},
                             std::pair{"slow_level", table.slow_level != nullptr},
                             std::pair{"start", table.start != nullptr},
                             std::pair{"test", table.test != nullptr},
                             std::pair{"wait", table.wait != nullptr},
                             std::pair{"split", table.split != nullptr},
                             std::pair{"totals", table.totals != nullptr},
                             std::pair{"describe", table.describe != nullptr},
                             std::pair{"last_error", table.last_error != nullptr},
                             std::pair{"abort_job", table.abort_job != nullptr}};
  for (const auto& [name, present] : functions)
    if (!present) return name;
  return nullptr;
}

}  // namespace

const dit_exchange_plugin& checked_table(dit_exchange_entry entry, const std::string& origin) {
  const auto refuse = [&](const std::string& why) {
    throw ExchangeError(DIT_ERROR_UNSUPPORTED, "exchange plugin " + origin + " " + why);
  };
  if (entry == nullptr) refuse("has a null entry function");
  const dit_exchange_plugin* table = entry(DIT_EXCHANGE_VERSION);
  if (table == nullptr)
    refuse("does not serve version " + to_string(DIT_EXCHANGE_VERSION) + " of the exchange interface");
  // The version stands right behind the size in every version of the table.
  if (table->struct_size < offsetof(dit_exchange_plugin, name))
    refuse("gave a table of " + to_string(table->struct_size) + " bytes, expected at least " +
           to_string(first_table_bytes));
  if (table->version != DIT_EXCHANGE_VERSION)
    refuse("was built for version " + to_string(table->version) + " of the exchange interface, expected " +
           to_string(DIT_EXCHANGE_VERSION));
  if (table->struct_size < first_table_bytes)
    refuse("gave a table of " + to_string(table->struct_size) + " bytes, expected at least " +
           to_string(first_table_bytes));
  if (table->name == nullptr || *table->name == '\0') refuse("has no name in its table");
  if (table->description == nullptr) refuse("has a null description in its table");
  if (const char* missing = missing_function(*table))
    refuse(std::string("has a null function in its table: ") + missing);
  const bool registers = entry_of(*table, &dit_exchange_plugin::register_memory) != nullptr;
  if (registers && entry_of(*table, &dit_exchange_plugin::unregister_memory) == nullptr)
    refuse("has a null function in its table: unregister_memory, beside register_memory");
  const bool stores = (entry_of(*table, &dit_exchange_plugin::capabilities) & DIT_CAPABILITY_STORES) != 0;
  if (stores && (!registers || entry_of(*table, &dit_exchange_plugin::peer_memory) == nullptr ||
                 entry_of(*table, &dit_exchange_plugin::begin_stores) == nullptr ||
                 entry_of(*table, &dit_exchange_plugin::end_stores) == nullptr))
    refuse(
        "has DIT_CAPABILITY_STORES, expected none of register_memory, peer_memory, begin_stores and "
        "end_stores "
        "to be null");
  return *table;
}

}  // namespace dit
