#include "comm/learnt_comm.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "autotune/learnt_file.hpp"
#include "autotune/learnt_key.hpp"
#include "comm/comm_state.hpp"
#include "comm/learnt_place.hpp"
#include "comm/learnt_store.hpp"
#include "run/log.hpp"
#include "run/world.hpp"
#include "world/world.hpp"

namespace tapa {

namespace {

/// Whether the program has set an option of this communicator: then its times are no other's.
bool altered(const Options& options) {
  return std::ranges::any_of(
      option_table(), [&](const OptionInfo& info) { return options.origin(info.name) == Origin::call; });
}

std::string digest(const MachineView& machine) {
  return topology_digest(*machine.topology, machine.shares_buffers);
}

void tell(CommState& state) {
  if (!state.ready() || state.membership().world != World::of_process()) return;
  const auto locked = state.parts();
  const Options& options = *locked->chooser.options();
  LearntShape shape;
  shape.sizes = locked->tuner.learnt(today() - kLearntDays / 2);
  if (shape.sizes.empty() || altered(options)) return;
  shape.where = learnt_where(options);
  shape.ranks = state.size();
  shape.topology = digest(locked->chooser.machine());
  const Autotuner::Used& used = locked->tuner.used();
  note_learnt(std::move(shape), used.sizes, used.refuted);
}

}  // namespace

void recall_learnt(const std::string& text, CommParts& parts) {
  if (text.empty()) return;
  const Learnt learnt = parse_learnt(text, "of rank 0");
  const std::string here = digest(parts.chooser.machine());
  for (const LearntShape& shape : learnt.shapes) {
    if (shape.topology != here) continue;
    log_info("a communicator begins with what is known of " + std::to_string(shape.sizes.size()) + " sizes");
    parts.tuner.remember(shape.sizes);
  }
}

void keep_learnt(CommState& state) noexcept {
  if (state.rank() != 0 || state.size() < 2 || world_ends()) return;
  try {
    tell(state);
  } catch (const std::exception& e) {
    log_info(std::string("what a communicator has found is left out: ") + e.what());
  }
}

}  // namespace tapa
