// Parts of a context: the program makes their functions.
#include <algorithm>
#include <set>
#include <vector>

#include "bootstrap/context.hpp"
#include "bootstrap/line_ranks.hpp"
#include "common/agree.hpp"

namespace dit {
namespace {

struct ColourKey {
  int colour;
  int key;
};

/// Ranks of a colour, in the order that they have in their part.
std::vector<int> members_of(int colour, const std::vector<ColourKey>& all) {
  std::vector<int> members;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].colour == colour) members.push_back(static_cast<int>(rank));
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
  });
  return members;
}

void release(const dit_bootstrap& part) {
  if (part.release != nullptr) part.release(part.user);
}

}  // namespace

std::unique_ptr<BootstrapContext> BootstrapContext::split(int colour, int key) {
  line_->require_good();
  if (!line_->functions().makes_parts())
    throw PluginFailure(DIT_ERROR_UNSUPPORTED,
                        "options.communicator: make_part is null, expected a function for split");
  LineRanks ranks(line_, "split", settings_.timeout_seconds);
  const std::vector<ColourKey> all = gather(ranks, ColourKey{colour, key});
  std::set<int> colours;
  for (const ColourKey& each : all)
    if (each.colour >= 0) colours.insert(each.colour);
  std::optional<dit_bootstrap> part;
  std::string problem;
  for (const int each : colours) {
    const auto step = std::make_shared<PartStep>(members_of(each, all));
    line_->add(step);
    if (!line_->wait(*step, settings_.timeout_seconds)) {
      const PluginFailure late = overdue(*line_, *step, settings_.timeout_seconds);
      line_->fail(late.what());
      throw PluginFailure(late);
    }
    if (step->part()) part = step->part();
    if (problem.empty()) problem = step->problem();
  }
  try {
    together(ranks, [&] {
      if (!problem.empty()) throw PluginFailure(DIT_ERROR_COMMUNICATION, problem);
    });
  } catch (const PluginFailure&) {
    if (part) release(*part);
    throw;
  }
  if (!part) return nullptr;
  if (line_->functions().on_device()) {
    part->on_device = 1;
    part->device = line_->functions().device();
  }
  try {
    return std::make_unique<BootstrapContext>(*part, settings_, node_, reach_);
  } catch (const PluginFailure& failure) {
    if (failure.status() == DIT_ERROR_ARGUMENT) release(*part);
    throw;
  }
}

}  // namespace dit
