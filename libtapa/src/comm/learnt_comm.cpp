// What a communicator takes over from earlier runs, and what it leaves to later ones.
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

}  // namespace

/// All ranks have the same text, rank 0's, and the same topology.
void CommState::recall_learnt() {
  if (membership_.learnt.empty()) return;
  const Learnt learnt = parse_learnt(std::exchange(membership_.learnt, {}), "of rank 0");
  const std::string here = digest(parts_->chooser.machine());
  for (const LearntShape& shape : learnt.shapes) {
    if (shape.topology == here) parts_->tuner.remember(shape.sizes);
  }
}

void CommState::keep_learnt() noexcept {
  if (std::exchange(noted_, true) || rank_ != 0 || size_ < 2 || world_ends()) return;
  try {
    tell_learnt();
  } catch (const std::exception& e) {
    log_info(std::string("cache: a communicator is left out: ") + e.what());
  }
}

void CommState::tell_learnt() {
  if (!ready() || !keeps_learnt() || membership_.world != World::of_process()) return;
  const auto locked = parts();
  const std::shared_ptr<const Options> options = locked->chooser.options();
  if (altered(*options)) return;
  LearntShape shape;
  shape.where = learnt_where(*options);
  shape.ranks = size_;
  shape.topology = digest(locked->chooser.machine());
  shape.sizes = locked->tuner.learnt(today() - kLearntDays / 2);
  const Autotuner::Used& used = locked->tuner.used();
  note_learnt(std::move(shape), used.sizes, used.refuted);
}

}  // namespace tapa
