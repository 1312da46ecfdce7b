#include "transfer/device/block_losses.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace dit {
namespace {

BlockLoss* losses_in(const TransferBuffer& buffer) {
  return reinterpret_cast<BlockLoss*>(buffer.data());
}

}  // namespace

void BlockLosses::add(const CodeJob& job) {
  if (job.segments == 0) {
    return;
  }
  if (batches_.empty() || batches_.back().count == kMostJobs) {
    batches_.emplace_back();
  }
  append(batches_.back(), job);
}

void BlockLosses::launch(void* stream) {
  std::size_t segments = 0;
  for (const CodeJobs& jobs : batches_) {
    segments = std::max<std::size_t>(segments, jobs.segments);
  }
  if (segments_.size() < segments * sizeof(BlockLoss)) {
    segments_ = memory_.allocate(segments * sizeof(BlockLoss));
  }
  if (segments > 0 && on_host_.size() == 0) {
    on_host_ = memory_.allocate_on_host(blocks_ * sizeof(BlockLoss));
  }
  for (const CodeJobs& jobs : std::exchange(batches_, {})) {
    launcher_.launch({jobs, losses_in(segments_), losses_in(on_host_) + count_}, stream);
    count_ += jobs.count;
  }
}

BlockLoss BlockLosses::take(void* stream) {
  BlockLoss all;
  if (count_ == 0) {
    return all;
  }
  memory_.wait(stream);
  for (const BlockLoss& loss : std::span(losses_in(on_host_), std::exchange(count_, 0))) {
    all = sum_of(all, loss);
  }
  return all;
}

}  // namespace dit
