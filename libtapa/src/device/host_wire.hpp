/// @file
/// A wire between devices of one host that cannot reach each other, through slots in memory of the host. Of
/// short messages a kernel of the sender copies into the slots and one of the receiver out of them, and each
/// tells the other how far it is; long ones are left to copy engines (copy_engines.hpp).
///
/// The receiver's process makes the memory, so that it lies near its device.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/agreement.hpp"
#include "device/copy_engines.hpp"
#include "device/pipe_table.hpp"
#include "device/shared_pages.hpp"
#include "device/wire.hpp"

namespace tapa::device {

class HostWire final : public Wire {
 public:
  /// On the current device; collective. All ranks are of one host. `peers`: those that this one's device does
  /// not reach. `state`, `timeout`: as PipeTable's. Throws DeviceError, on all ranks alike.
  HostWire(const Agreement& agreement, const std::vector<int>& peers, LocalState* state, Word timeout);

  [[nodiscard]] std::string describe() const override;
  void exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                cudaStream_t stream) override;
  void start(std::span<const WireMessage> sends, std::span<const WireMessage> receives, cudaStream_t stream,
             int slot) override;
  [[nodiscard]] unsigned long long missing(int rank) const override;
  [[nodiscard]] std::string failure() const override { return ""; }
  [[nodiscard]] bool has_left(int rank) const override;
  void tell_failure() override;
  void settle() override;
  void restart() override;
  [[nodiscard]] TornDown part(bool well, std::chrono::nanoseconds limit) override;
  void abandon() override { tell_failure(); }
  void finish(bool well) override;

 private:
  /// What both ends of a pipe tell, each on lines of its own: the devices how far they are, the hosts that
  /// their rank makes no more calls.
  struct Words {
    alignas(128) Word filled;
    alignas(128) Word emptied;
    alignas(128) Word sender_left;
    alignas(128) Word receiver_left;
    alignas(128) Word teardown;  ///< the sender's, of the first channel
  };
  /// A pipe's slots and words.
  struct Ends {
    Words* words;
    std::byte* slots;
    bool sends;
    [[nodiscard]] Word* said() const { return sends ? &words->filled : &words->emptied; }
    [[nodiscard]] Word* heard() const { return sends ? &words->emptied : &words->filled; }
    [[nodiscard]] Word* own_left() const { return sends ? &words->sender_left : &words->receiver_left; }
    [[nodiscard]] Word* other_left() const { return sends ? &words->receiver_left : &words->sender_left; }
  };
  void map_pages(const Agreement& agreement, const std::vector<int>& peers);
  void put(std::span<const WireMessage> sends, std::span<const WireMessage> receives, cudaStream_t from,
           cudaStream_t into);
  void make_engines(const Agreement& agreement, const std::vector<int>& peers, LocalState* state,
                    Word timeout);
  [[nodiscard]] std::size_t bytes_of_pipes() const;
  [[nodiscard]] std::size_t bytes_of_peer() const;
  [[nodiscard]] Ends ends_at(const PipeTable::Place& place) const;

  std::vector<int> peers_;
  PipeShape shape_;
  EngineShape engine_shape_;
  std::vector<SharedPages> out_, in_;  ///< to and from each peer
  std::vector<Ends> ends_;             ///< by the table's index
  std::optional<PipeTable> table_;
  std::unique_ptr<CopyEngines> engines_;
};

}  // namespace tapa::device
