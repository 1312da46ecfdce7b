/// A policy for one run on a session's ranks, and V-Major's rows for it.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>

#include "c_interface/handles.hpp"
#include "transfer/active_rows.hpp"
#include "transfer/device/device_active_rows.hpp"
#include "transfer/wire_run.hpp"

/// Rows that travel: where V is, in memory of the host or of its device.
struct ActiveSet {
  std::vector<std::uint32_t> on_host;
  std::span<const std::uint32_t> on_device;
  bool all = false;  ///< V came for the first time: everything travels as in step 0
  [[nodiscard]] std::span<const std::uint32_t> rows() const {
    return on_device.empty() ? std::span<const std::uint32_t>(on_host) : on_device;
  }
};

struct dit_wire {
  /// Takes layout ids: collective. Throws std::invalid_argument.
  dit_wire(dit_session& in, const dit::UlyssesLayout& layout, const dit::WirePolicy& policy,
           const dit_wire_options& options);

  /// For a visit of the place: again when Q, K and V of all groups have travelled since. By any threads, as
  /// what follows.
  /// Of values in host memory.
  void choose_rows(const dit::TransferPlace& place, const dit::SourceTensor& value);
  /// Those of a group's tensor that travel in this visit of the place; empty where the policy leaves none
  /// behind. With `source`, V chooses them, again when this group's V travelled before. Throws
  /// std::invalid_argument when they have not been chosen.
  /// `memory_kind`: of `source`; on a device what is chosen is chosen behind what is in the stream.
  [[nodiscard]] ActiveSet take_active_rows(dit::AttentionTensor tensor, int group,
                                           const dit::TransferPlace& place, const dit::SourceTensor& source,
                                           int memory_kind, void* stream);

  void add(dit_transfer& made);
  void remove(const dit_transfer& freed);
  [[nodiscard]] int transfers();  ///< not freed yet
  /// For all of them; V-Major's rows are forgotten, too.
  void forget(void* stream);
  void have_travelled(int branch);

  dit_session& session;
  int number;  // in the order in which the session's wires are made, from 1: the same on all ranks
  int branches;
  dit::WireRun run;
  std::atomic<bool> on_device{false};  // its transfers' tensors are
  std::atomic<int> memory_kind{-1};    // of all its transfers, from the first one on

 private:
  // Of a branch: for which place rows are chosen, and which tensors of which groups have taken them.
  struct Visit {
    std::optional<dit::TransferPlace> place;
    std::vector<std::uint8_t> taken;
    bool first = false;  // of V in this layer
  };
  [[nodiscard]] bool chooses(const dit::TransferPlace& place) const;
  [[nodiscard]] Visit& visit_of(const dit::TransferPlace& place);
  [[nodiscard]] static std::uint8_t& taken_by(Visit& visit, dit::AttentionTensor tensor, int group);
  void choose(Visit& visit, const dit::TransferPlace& place, const dit::SourceTensor& value, int memory_kind,
              void* stream);

  std::mutex mutex_;  // of what follows
  // Of V-Major only, made at first need:
  std::optional<dit::ActiveRows> rows_;
  std::optional<dit::DeviceActiveRows> device_rows_;
  std::vector<Visit> visits_;       // of each branch
  std::vector<std::uint8_t> seen_;  // of each branch and layer: V has come
  std::vector<dit_transfer*> transfers_;
};
