// Facts about an exchange, as JSON.
#include <nlohmann/json.hpp>

#include "c_interface/handles.hpp"
#include "exchange.hpp"

namespace dit::operators {

std::string Exchange::report() const {
  using nlohmann::json;
  const ExchangeContext& context = group_->context();
  const std::vector<std::string> names = context.levels();
  std::vector<int> peers(names.size(), 0);
  for (int peer = 0; peer < group_->size(); ++peer)
    if (peer != group_->rank()) ++peers.at(static_cast<std::size_t>(context.level_of(peer)));
  json levels = json::array();
  std::uint64_t full = 0;
  for (std::size_t level = 0; level < names.size(); ++level) {
    std::uint64_t exact = 0;
    for (std::size_t what = 0; what < kTransfers; ++what)
      exact += counts_.started[what] * exact_bytes_[what][level];
    double share = 1;
    if (transfers_.wire() != nullptr)
      require_ok(dit_wire_share(transfers_.wire(), static_cast<int>(level), &share));
    levels.push_back({{"name", names[level]},
                      {"peers", peers[level]},
                      {"sent_bytes", counts_.sent[level]},
                      {"full_bytes", exact},
                      {"share", share}});
    full += exact;
  }
  const json facts = {{"exchange", name_},
                      {"group", group_->name()},
                      {"rank", group_->rank()},
                      {"ranks", group_->size()},
                      {"plugin", context.plugin().name()},
                      {"memory_kind", attention_.on_device() ? "cuda" : "host"},
                      {"stores", transfers_.stores()},
                      {"slots", attention_.slots},
                      {"side_stream", attention_.side_stream},
                      {"started", counts_.started},
                      {"levels", levels},
                      {"full_bytes", full},
                      {"slot_bytes", transfers_.slot_bytes()},
                      {"workspace_bytes", transfers_.workspace_bytes()},
                      {"wire_bytes", transfers_.wire_bytes()},
                      {"guarded", transfers_.guarded()},
                      {"step", step_},
                      {"branch", branch_},
                      {"policy", attention_.policy},
                      {"wire", transfers_.wire() == nullptr ? json() : json::parse(transfers_.wire_text())}};
  return facts.dump();
}

}  // namespace dit::operators
