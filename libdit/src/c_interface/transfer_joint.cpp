// Transfers that start together, or one of a device, and go by an exchange: one message for each rank.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "c_interface/tensor.hpp"
#include "c_interface/transfer.hpp"

using namespace dit::c_interface;

namespace dit::c_interface {

// A copy for each sample and head where these lie apart.
std::vector<RowCopy> arriving_rows(const std::vector<Arrival>& arrivals, const TensorShape& target,
                                   const TensorStrides& strides, std::size_t element_bytes) {
  const auto bytes = [element_bytes](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  };
  const bool rows_lie_together = strides.head == target.head_dim || target.heads == 1;
  const std::int64_t pieces = rows_lie_together ? 1 : target.heads;
  const std::size_t row = bytes(target.row_elements());
  std::vector<RowCopy> copies;
  for (const Arrival& arrival : arrivals)
    for (std::int64_t sample = 0; sample < target.batch; ++sample)
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::size_t first_row = static_cast<std::size_t>(sample * arrival.rows) * row;
        copies.push_back(
            {bytes(sample * strides.batch + arrival.target_row * strides.row + piece * strides.head),
             bytes(strides.row), arrival.offset + first_row + bytes(piece * target.head_dim), row,
             static_cast<std::size_t>(arrival.rows), rows_lie_together ? row : bytes(target.head_dim)});
      }
  return copies;
}

}  // namespace dit::c_interface

// Inside a node each goes right into its target.
bool dit_transfer::may_join(std::span<const dit_transfer* const> transfers) {
  const dit_transfer& first = *transfers[0];
  const bool alike = std::ranges::all_of(transfers, [&](const dit_transfer* one) {
    return one->wire_ == nullptr && one->tensor_ != dit::AttentionTensor::output &&
           one->element_bytes_ == first.element_bytes_;
  });
  constexpr int kMostRanks = dit::kMostParts / 2;
  return alike && (first.element_bytes_ == 2 || first.element_bytes_ == 4) &&
         first.session_.context.size() <= kMostRanks && first.session_.context.leaves_node();
}

bool dit_transfer::can_join(std::span<dit_transfer* const> transfers,
                            std::span<const dit_transfer_call> calls) {
  const std::vector<const dit_transfer*> all(transfers.begin(), transfers.end());
  return may_join(all) && std::ranges::all_of(calls, [&](const dit_transfer_call& call) {
           return call.stream == calls[0].stream && call.exchange_stream == calls[0].exchange_stream &&
                  call.device == calls[0].device;
         });
}

bool dit_transfer::joins_alone() const {
  const dit_transfer* const self = this;
  return memory_kind_ != DIT_MEMORY_HOST && may_join({&self, 1});
}

dit::JointPlan dit_transfer::plan_alone() const {
  const dit::JointTensor alone{&layout_, tensor_, group_, groups_, element_bytes_};
  return dit::plan_joint({&alone, 1}, session_.context.rank(), session_.context.size());
}

std::shared_ptr<JointExchange> dit_transfer::joint_with(std::span<dit_transfer* const> transfers) {
  std::vector<std::uint64_t> members;
  for (const dit_transfer* transfer : transfers) {
    members.push_back(transfer->serial_);
  }
  const auto known = std::find_if(joints_.begin(), joints_.end(),
                                  [&](const auto& joint) { return joint->members == members; });
  if (known != joints_.end() && !(*known)->given_up) {
    return *known;
  }
  auto made = std::make_shared<JointExchange>();
  made->layout_id = known != joints_.end() ? (*known)->layout_id : session_.context.take_layout_ids(1);
  std::vector<dit::JointTensor> tensors;
  for (const dit_transfer* of : transfers) {
    tensors.push_back({&of->layout_, of->tensor_, of->group_, of->groups_, of->element_bytes_});
  }
  made->plan = dit::plan_joint(tensors, session_.context.rank(), session_.context.size());
  made->members = std::move(members);
  if (transfers.size() == 1) {
    dit::TransferBuffers lent = std::exchange(lent_, {});
    made->send = std::move(lent.send);
    made->recv = std::move(lent.recv);
  }
  if (known != joints_.end()) {
    *known = made;
  } else {
    joints_.push_back(made);
  }
  return made;
}

// One kernel lays what leaves into messages, and this rank's own rows into its targets.
void dit_transfer::join(std::span<dit_transfer* const> transfers, std::span<const dit_transfer_call> calls) {
  for (const dit_transfer* transfer : transfers) {
    transfer->require_idle();
  }
  dit_transfer& first = *transfers[0];
  const dit_transfer_call& call = calls[0];
  const int element_type = common_type(transfers, calls);
  const std::shared_ptr<JointExchange> joint = first.joint_with(transfers);
  const dit::TransferMemory& memory = dit::TransferMemory::of(first.memory_kind_);
  const auto current = first.make_current(call.device);
  if (joint->send.size() < joint->plan.send_bytes) {
    joint->send = memory.allocate(joint->plan.send_bytes);
  }
  if (joint->recv.size() < joint->plan.recv_bytes) {
    joint->recv = memory.allocate(joint->plan.recv_bytes);
  }
  std::vector<dit::PrepareJob> jobs;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    jobs.push_back(transfers[i]->joint_job(calls[i], *joint, i));
  }
  run_jobs(jobs, element_type, first.memory_kind_, call.device, call.stream);
  dit_exchange_call exchange{};
  exchange.send = joint->send.data();
  exchange.recv = joint->recv.data();
  exchange.send_blocks = joint->plan.send.data();
  exchange.recv_blocks = joint->plan.recv.data();
  exchange.memory_kind = first.memory_kind_;
  exchange.device = call.device;
  exchange.stream = first.way_->exchange_stream(call.stream, call.exchange_stream);
  exchange.label = first.label_.empty() ? nullptr : first.label_.c_str();
  exchange.layout_id = joint->layout_id;
  // On a device buffers are freed behind what uses them.
  const bool host = first.memory_kind_ == DIT_MEMORY_HOST;
  const auto request = std::make_shared<SharedRequest>(transfers.size());
  request->set(first.session_.context.start(exchange, host ? joint : nullptr));
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    transfers[i]->begin(request, call);
    transfers[i]->arriving_ = joint;
  }
}

dit::PrepareJob dit_transfer::joint_job(const dit_transfer_call& call, const JointExchange& joint,
                                        std::size_t at) {
  const dit::SourceTensor source =
      to_source("call->source", call.source, way_->source_shape(), element_bytes_);
  const dit::TargetTensor target =
      to_target("call->target", call.target, way_->target_shape(), element_bytes_);
  dit::PrepareJob job = job_for(call, source);
  for (const dit::PushPart& part : joint.plan.own[at]) add_own_part(job, part, target, element_bytes_);
  for (const dit::Departure& leaves : joint.plan.departures[at]) {
    const dit::TensorShape block{job.samples, leaves.part.rows.size(), leaves.part.heads.size(),
                                 job.head_dim};
    add_part(job, leaves.part, joint.send.data() + leaves.offset, dit::dense_strides(block));
  }
  arriving_rows_ =
      arriving_rows(joint.plan.arrivals[at], way_->target_shape(), target.strides, element_bytes_);
  target_ = target;
  return job;
}

void dit_transfer::finish_joint(void* stream) {
  const auto current = make_current(device_);
  dit::TransferMemory::of(memory_kind_).unpack_rows(arriving_rows_, arriving_->recv, target_, stream);
  arriving_.reset();
}
