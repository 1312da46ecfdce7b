/// A policy for one run on a session's ranks, and V-Major's rows for it.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>

#include "c_interface/handles.hpp"
#include "transfer/active_rows.hpp"
#include "transfer/wire_run.hpp"

struct dit_wire {
  /// Takes layout ids: collective. Throws std::invalid_argument.
  dit_wire(dit_session& in, const dit::UlyssesLayout& layout, const dit::WirePolicy& policy,
           const dit_wire_options& options);

  /// Unless they are chosen for this place already. Both by any threads at once.
  void choose_rows(const dit::TransferPlace& place, const dit::SourceTensor& value);
  /// Those that travel at a place; empty where the policy leaves none behind. Throws std::invalid_argument
  /// when they have not been chosen.
  [[nodiscard]] std::vector<std::uint32_t> active_rows(const dit::TransferPlace& place) const;

  dit_session& session;
  int branches;
  dit::WireRun run;
  std::atomic<int> transfers{0};  // not freed yet

 private:
  [[nodiscard]] bool chooses(const dit::TransferPlace& place) const;

  mutable std::mutex mutex_;                               // transfers of several threads choose and ask
  std::optional<dit::ActiveRows> rows_;                    // of V-Major only
  std::vector<std::optional<dit::TransferPlace>> chosen_;  // of each branch: for which place
};
