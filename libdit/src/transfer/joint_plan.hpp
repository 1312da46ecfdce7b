/// Several scattered tensors (Q, K and V) in one message for each rank: where each block lies in it. Pure.
///
/// A message has the tensors in their order, of each its blocks in the order of push_parts, and each block
/// dense, [samples][rows][heads][head_dim], from a multiple of kBlockGrain on. A rank's own blocks are in
/// none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dit/exchange.h"
#include "transfer/push_map.hpp"

namespace dit {

inline constexpr std::size_t kBlockGrain = 16;  ///< bytes: what is copied at once

/// A tensor that goes with others.
struct JointTensor {
  const UlyssesLayout* layout = nullptr;
  AttentionTensor tensor = AttentionTensor::query;
  int group = 0;
  int groups = 1;
  std::size_t element_bytes = 0;
};

/// A block that leaves: from the source's rows and heads to a byte of the send buffer.
struct Departure {
  PushPart part;
  std::size_t offset = 0;
};
/// A block that comes: from a byte of the receive buffer to the target's rows, of all of its heads.
struct Arrival {
  std::size_t offset = 0;
  std::int64_t target_row = 0;
  std::int64_t rows = 0;
  int peer = 0;
};

struct JointPlan {
  std::vector<dit_block> send, recv;               ///< messages, for each rank
  std::size_t send_bytes = 0, recv_bytes = 0;      ///< of the buffers
  std::vector<std::vector<PushPart>> own;          ///< for each tensor: blocks that stay
  std::vector<std::vector<Departure>> departures;  ///< for each tensor
  std::vector<std::vector<Arrival>> arrivals;      ///< for each tensor
};

[[nodiscard]] JointPlan plan_joint(std::span<const JointTensor> tensors, int rank, int ranks);

/// Bytes of a part of all samples when it is dense.
[[nodiscard]] std::size_t dense_bytes(const JointTensor& tensor, const PushPart& part);

}  // namespace dit
