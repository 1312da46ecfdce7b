// The life of a context: open, split, describe, close.
#include "bootstrap/context.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "bootstrap/device.hpp"
#include "bootstrap/line_ranks.hpp"
#include "common/agree.hpp"
#include "exchange/plugin_config.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

using std::to_string;

constexpr double kMoment = 0.5;  ///< seconds in which a function of the program's may return at the end

/// What ranks tell each other when a context is opened.
struct Opening {
  std::uint64_t node = 0;  ///< hashes, of two kinds for nodes
  std::uint64_t other_node = 0;
  std::uint64_t config = 0;
  std::uint64_t reach = 0;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint8_t alltoallv = 0;
  std::uint8_t parts = 0;
  std::uint8_t limited = 0;  ///< has a time limit
  std::uint8_t on_device = 0;
  std::uint8_t unused[4] = {};
};

std::uint64_t hash_of(std::string_view text, std::uint64_t begin) {
  for (const char letter : text) begin = (begin ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return begin;
}

void require_config(const std::string& config) {
  try {
    PluginConfig(config.c_str(), {});
  } catch (const ConfigError& error) {
    throw PluginFailure(DIT_ERROR_ARGUMENT, error.what());
  }
}

void require_order(const std::vector<Opening>& all) {
  for (std::size_t place = 0; place < all.size(); ++place)
    if (all[place].rank != static_cast<int>(place) || all[place].size != static_cast<int>(all.size()))
      throw PluginFailure(DIT_ERROR_COMMUNICATION, "allgather of the program gave at place " +
                                                       to_string(place) + " of " + to_string(all.size()) +
                                                       " what is not of rank " + to_string(place) +
                                                       ", expected the bytes of all ranks in their order");
}

// `what` of the first rank that has another one than rank 0.
void require_alike(const std::vector<Opening>& all, const char* what,
                   const std::function<std::uint64_t(const Opening&)>& part) {
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (part(all[rank]) != part(all[0]))
      throw PluginFailure(DIT_ERROR_ARGUMENT, std::string(what) + " on rank " + to_string(rank) +
                                                  " and on rank 0, expected the same on all ranks");
}

std::vector<int> nodes_of(const std::vector<Opening>& all) {
  std::vector<int> nodes;
  for (const Opening& each : all) {
    const auto first = std::find_if(all.begin(), all.end(), [&](const Opening& other) {
      return other.node == each.node && other.other_node == each.other_node;
    });
    nodes.push_back(static_cast<int>(first - all.begin()));
  }
  return nodes;
}

/// The group of each rank, of those that reach each other's memory. Collective.
std::vector<int> groups_of(const std::vector<Opening>& all, Ranks& ranks, int device) {
  const auto on_device = [](const Opening& each) { return each.on_device != 0; };
  if (bootstrap_devices.reach != nullptr && std::ranges::all_of(all, on_device))
    return bootstrap_devices.reach(ranks, device);
  std::vector<int> groups;
  for (const Opening& each : all)
    groups.push_back(static_cast<int>(std::ranges::find(all, each.reach, &Opening::reach) - all.begin()));
  return groups;
}

}  // namespace

BootstrapContext::BootstrapContext(const dit_bootstrap& given, Settings settings, const std::string& node,
                                   const std::string& reach)
    : settings_(std::move(settings)), devices_(settings_.timeout_seconds) {
  totals_.struct_size = sizeof(totals_);
  auto functions = std::make_unique<CallerFunctions>(given, node, reach);
  node_ = functions->node();
  reach_ = functions->reach();
  line_ = std::make_shared<Line>(std::move(functions));
  line_->start();
  try {
    agree_on_opening();
  } catch (const PluginFailure& failure) {
    if (line_->stop(kMoment) && failure.status() == DIT_ERROR_ARGUMENT) line_->functions().give_back();
    throw;
  }
}

void BootstrapContext::agree_on_opening() {
  LineRanks ranks(line_, "open", settings_.timeout_seconds);
  const CallerFunctions& functions = line_->functions();
  Opening mine;
  mine.node = hash_of(node_, 0xcbf29ce484222325U);
  mine.other_node = hash_of(node_, 0x9e3779b97f4a7c15U);
  mine.config = hash_of(settings_.config, 0xcbf29ce484222325U);
  mine.reach = hash_of(reach_, 0xcbf29ce484222325U);
  mine.on_device = functions.on_device() ? 1 : 0;
  mine.rank = rank();
  mine.size = size();
  mine.alltoallv = functions.has_alltoallv() ? 1 : 0;
  mine.parts = functions.makes_parts() ? 1 : 0;
  mine.limited = settings_.timeout_seconds > 0 ? 1 : 0;
  const std::vector<Opening> all = gather(ranks, mine);
  require_order(all);
  together(ranks, [&] { require_config(settings_.config); });
  require_alike(all, "options.config is not the same", [](const Opening& each) { return each.config; });
  require_alike(all, "options.communicator: alltoallv is null on one and not on the other",
                [](const Opening& each) { return each.alltoallv; });
  require_alike(all, "options.communicator: make_part is null on one and not on the other",
                [](const Opening& each) { return each.parts; });
  const std::vector<int> nodes = nodes_of(all);
  levels_ = levels_of_reach(nodes, groups_of(all, ranks, functions.device()), rank());
  if (std::any_of(all.begin(), all.end(), [](const Opening& each) { return each.limited != 0; }))
    line_->share(SharedStarts::make(ranks, nodes));
}

ContextPlace BootstrapContext::place() const {
  return {rank(), static_cast<int>(levels_.names.size()), levels_.of, channels_};
}

// What is under way when the limit passes is not done any more.
void BootstrapContext::close() {
  std::optional<PluginFailure> failure;
  const bool good = line_->is_good();
  const double limit = settings_.timeout_seconds;
  if (const auto late = line_->drain(good ? limit : kMoment)) {
    failure = overdue(*line_, *late, good ? limit : kMoment);
    line_->fail(failure->what());
  }
  try {
    devices_.close();
  } catch (const PluginFailure& unreported) {
    if (!failure) failure = unreported;
  }
  if (!line_->stop(kMoment) && !failure)
    failure = PluginFailure(DIT_ERROR_TIMEOUT,
                            "a function of the program's has not returned: what it uses must stay");
  if (failure) throw PluginFailure(*failure);
}

void BootstrapContext::check() {
  line_->require_good();
  devices_.check();
}

int BootstrapContext::open_channel() {
  line_->require_good();
  return channels_++;
}

void BootstrapContext::totals(dit_exchange_totals& totals) const {
  const Lock lock(mutex_);
  dit_exchange_totals all = totals_;
  all.exchanges += line_->exchanges();
  give(all, totals);
}

std::string BootstrapContext::describe() const {
  std::string text = "bootstrap: rank " + to_string(rank()) + " of " + to_string(size()) + "; " +
                     words_of(levels_) + "; host memory by the program's " +
                     (line_->functions().has_alltoallv() ? "alltoallv" : "allgather") + ", on a thread";
  if (devices_.is_open()) text += "; " + devices_.text();
  return text;
}

}  // namespace dit
