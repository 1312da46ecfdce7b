#include "transfer/joint_plan.hpp"

namespace dit {
namespace {

std::size_t next_block(std::size_t offset) {
  return (offset + kBlockGrain - 1) / kBlockGrain * kBlockGrain;
}

/// Begins each message behind the one before.
void place(std::vector<dit_block>& messages, const std::vector<std::size_t>& bytes, std::size_t& total) {
  for (const std::size_t one : bytes) {
    messages.push_back({total, one});
    total = next_block(total + one);
  }
}

}  // namespace

std::size_t dense_bytes(const JointTensor& tensor, const PushPart& part) {
  const AttentionShape& shape = tensor.layout->shape();
  return static_cast<std::size_t>(shape.batch * part.rows.size() * part.heads.size() * shape.head_dim) *
         tensor.element_bytes;
}

JointPlan plan_joint(std::span<const JointTensor> tensors, int rank, int ranks) {
  JointPlan plan;
  std::vector<std::size_t> sent(static_cast<std::size_t>(ranks), 0), received(sent);
  for (const JointTensor& one : tensors) {
    std::vector<PushPart>& own = plan.own.emplace_back();
    std::vector<Departure>& departures = plan.departures.emplace_back();
    for (const PushPart& part : push_parts(*one.layout, one.tensor, rank, one.group, one.groups)) {
      if (part.peer == rank) {
        own.push_back(part);
        continue;
      }
      std::size_t& end = sent[static_cast<std::size_t>(part.peer)];
      departures.push_back({part, next_block(end)});
      end = next_block(end) + dense_bytes(one, part);
    }
    std::vector<Arrival>& arrivals = plan.arrivals.emplace_back();
    for (int peer = 0; peer < ranks; ++peer)
      for (const PushPart& part : push_parts(*one.layout, one.tensor, peer, one.group, one.groups)) {
        if (part.peer != rank || peer == rank) continue;
        std::size_t& end = received[static_cast<std::size_t>(peer)];
        arrivals.push_back({next_block(end), part.target_row, part.rows.size(), peer});
        end = next_block(end) + dense_bytes(one, part);
      }
  }
  place(plan.send, sent, plan.send_bytes);
  place(plan.recv, received, plan.recv_bytes);
  for (std::vector<Departure>& departures : plan.departures)
    for (Departure& one : departures) one.offset += plan.send[static_cast<std::size_t>(one.part.peer)].offset;
  for (std::vector<Arrival>& arrivals : plan.arrivals)
    for (Arrival& one : arrivals) one.offset += plan.recv[static_cast<std::size_t>(one.peer)].offset;
  return plan;
}

}  // namespace dit
