/// @file
/// All-to-alls of ranks on several nodes: the steps of lane_plan.hpp, carried out by the node's exchange, a
/// wire and kernels that copy rows.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/agreement.hpp"
#include "device/communicator.hpp"
#include "device/create.hpp"
#include "device/cuda_objects.hpp"
#include "device/islands.hpp"
#include "device/lane_plan.hpp"
#include "device/wire.hpp"

namespace tapa::device {

class Lanes {
 public:
  /// On the current device; collective over all ranks, in a step of Agreement::together(). `node`: the
  /// exchange of the ranks within reach, which are a node here also where others of the host are not. Throws
  /// DeviceError.
  Lanes(const Agreement& agreement, const Islands& islands, Communicator& node,
        const TAPA_Device_options& options, const MessageOffer& offer);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Puts an all-to-all on a stream. With `done`, an event, the stream need not wait for the messages: it is
  /// recorded behind all of the call. Throws DeviceError.
  void alltoall(const void* send, void* receive, std::size_t bytes, cudaStream_t stream);
  void alltoallv(const void* send, void* receive, const BlockCounts& counts, cudaStream_t stream,
                 cudaEvent_t done);
  void alltoall_strided(const void* send, void* receive, const StridedLayout& layout, cudaStream_t stream,
                        cudaEvent_t done);

  /// Throws DeviceError when a call has failed. `rank`: the one that did not arrive, or -1.
  void check_failure(int& rank) const;
  [[nodiscard]] std::string describe() const;
  /// See Wire::finish().
  void finish();
  /// As TAPA_Device_restart. Collective. Throws DeviceError, on all ranks alike.
  void restart();
  /// See Wire::tell_failure().
  void tell_failure() { wire_->tell_failure(); }

 private:
  struct Buffers {
    const void* send;
    void* receive;
    std::span<const PlacedBlock> sent{}, received{};  ///< of strided calls: blocks by rank
  };
  void provide_areas();
  [[nodiscard]] std::size_t row_bytes(std::size_t block) const;
  void upload_orders();
  void run(const std::vector<LaneStep>& steps, const Buffers& buffers, cudaStream_t stream);
  void run_apart(const std::vector<LaneStep>& steps, const Buffers& buffers, cudaStream_t stream,
                 cudaEvent_t done);
  void require_ready(cudaStream_t stream) const;
  void mark_slot(int slot, cudaStream_t stream);
  void await_slot(int slot, cudaStream_t stream);
  void do_step(const RowCopy& copy, const Buffers& buffers, cudaStream_t stream);
  void do_step(const NodeExchange& exchange, const Buffers& buffers, cudaStream_t stream);
  void do_step(const Start& start, const Buffers& buffers, cudaStream_t stream);
  void do_step(const Wait& wait, const Buffers& buffers, cudaStream_t stream);
  void do_step(const PieceCopy& copy, const Buffers& buffers, cudaStream_t stream);
  void do_step(const NodeBlocks& blocks, const Buffers& buffers, cudaStream_t stream);
  [[nodiscard]] std::byte* find(Place place, const Buffers& buffers) const;
  [[nodiscard]] const std::uint32_t* order(RowOrder order) const;
  void check_failure() const;
  [[nodiscard]] bool has_failed() const;

  Agreement agreement_;
  Partition nodes_;
  bool one_host_;
  Communicator& node_;
  bool gathers_;  ///< some node has several ranks
  LanePlan plan_;
  double timeout_;
  std::size_t most_row_;
  std::size_t piece_;  ///< bytes of a strided block that travel at once
  std::optional<DeviceMemory> areas_, orders_;
  std::vector<std::size_t> area_at_;
  int window_ = -1;
  std::optional<WireStream> ends_;  ///< what comes behind messages that no stream of the caller's waits for
  std::array<std::optional<unsigned long long>, kLaneSlots> used_;  ///< in which capture a slot was used last
  int next_slot_ = 0;
  std::unique_ptr<Wire> wire_;
  std::size_t bytes_of_steps_ = 0;  ///< block size that `steps_` are for
  std::vector<LaneStep> steps_;
};

}  // namespace tapa::device
