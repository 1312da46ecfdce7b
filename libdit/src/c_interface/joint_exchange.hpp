/// One exchange that carries several transfers: what stays from one to the next.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transfer/joint_plan.hpp"
#include "transfer/transfer_memory.hpp"

namespace dit::c_interface {

struct JointExchange {
  std::vector<std::uint64_t> members;  ///< serial numbers of the transfers
  JointPlan plan;
  TransferBuffer send, recv;    ///< allocated at the first start
  std::uint64_t layout_id = 0;  ///< as in dit_exchange_call
  bool given_up = false;        ///< late ranks may still use the buffers
};

/// Where a transfer's blocks of a joint exchange come to, on this rank's target: what its finish copies.
[[nodiscard]] std::vector<RowCopy> arriving_rows(const std::vector<Arrival>& arrivals,
                                                 const TensorShape& target, const TensorStrides& strides,
                                                 std::size_t element_bytes);

}  // namespace dit::c_interface
