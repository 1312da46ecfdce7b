/// The four transfers of an exchange, the policy that they follow, and the memory that they fill on a device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attention.hpp"
#include "calls.hpp"
#include "group.hpp"
#include "streams.hpp"

namespace dit::operators {

inline constexpr int kTransfers = 4;  ///< of dit_transfer_kind
/// In which Q, K and V start together: under V-Major V chooses the rows of all three. One order everywhere,
/// as what goes together is prepared for its order.
inline constexpr std::array<int, 3> kTogether = {DIT_SCATTER_VALUE, DIT_SCATTER_QUERY, DIT_SCATTER_KEY};
/// [batch, rows, heads, head_dim].
using Sizes = std::array<std::int64_t, 4>;
[[nodiscard]] constexpr std::size_t elements_of(const Sizes& sizes) {
  return static_cast<std::size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
}

/// Bytes that this rank would keep from step to step under the attention's policy; 0 for exact transfers.
/// Allocates none of them. Collective; throws on all ranks alike.
[[nodiscard]] std::uint64_t wire_bytes(Group& group, const Attention& attention);

class Transfers {
 public:
  /// Collective; throws on all ranks alike.
  Transfers(Group& group, const Attention& attention);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Forgets what a policy remembers, behind what is in torch's current stream. Collective; nothing is under
  /// way.
  void reset();
  /// As of dit_wire_first_alike; 0 for exact transfers.
  [[nodiscard]] int first_alike(int step, int branch) const;
  /// A graph of starts of a branch was replayed.
  void note_replay(int branch) const;

  [[nodiscard]] dit_transfer* of(int what) const { return transfers_[static_cast<std::size_t>(what)].get(); }
  /// Starts those of kTogether. call_of(what): the dit_transfer_call of each, asked in their order.
  template <typename CallOf>
  void start_together(const CallOf& call_of) const {
    std::array<dit_transfer*, kTogether.size()> transfers{};
    std::array<dit_transfer_call, kTogether.size()> calls{};
    for (std::size_t i = 0; i < kTogether.size(); ++i) {
      transfers[i] = of(kTogether[i]);
      calls[i] = call_of(kTogether[i]);
    }
    require_ok(dit_transfer_start_together(transfers.data(), calls.data(), calls.size()));
  }
  [[nodiscard]] const dit_layout* layout() const { return layout_.get(); }
  [[nodiscard]] const dit_wire* wire() const { return wire_.get(); }
  [[nodiscard]] const Sizes& source(int what) const { return source_[static_cast<std::size_t>(what)]; }
  [[nodiscard]] const Sizes& target(int what) const { return target_[static_cast<std::size_t>(what)]; }
  /// Where a result lies: on a device only.
  [[nodiscard]] dit_tensor slot(int what, std::size_t number) const;
  /// Whether rows are stored right into the peers' targets, of query, key and value.
  [[nodiscard]] bool stores() const { return stores_; }
  [[nodiscard]] std::uint64_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] std::uint64_t workspace_bytes() const;
  [[nodiscard]] std::uint64_t wire_bytes() const;
  /// Exchanges that the policy's guard has sent in bf16.
  [[nodiscard]] std::uint64_t guarded() const;
  /// The policy in full; "" for exact transfers.
  [[nodiscard]] std::string wire_text() const;

 private:
  void make_transfers();
  [[nodiscard]] bool forget();
  void learn_shapes();
  void make_slots();
  void bind();
  [[nodiscard]] bool try_to_bind();
  void warm_up();
  void start_all(const std::byte* numbers, void* stream) const;
  [[nodiscard]] dit_transfer_call warm_up_call(int what, const std::byte* numbers, void* stream) const;
  [[nodiscard]] std::size_t bytes_of(int what) const;

  Group& group_;
  const Attention& attention_;
  LayoutHandle layout_;
  WireHandle wire_;
  DeviceMemory memory_;
  RegistrationHandle registration_;
  std::array<TransferHandle, kTransfers> transfers_;
  std::array<Sizes, kTransfers> source_{}, target_{};
  std::array<std::vector<std::size_t>, kTransfers> offsets_;  // of slots, in memory_
  std::uint64_t slot_bytes_ = 0;
  bool stores_ = false;
};

}  // namespace dit::operators
