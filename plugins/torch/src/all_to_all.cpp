#include "all_to_all.hpp"

#include <array>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "streams.hpp"

namespace dit::operators {
namespace {

/// Blocks of a tensor's rows, one after the other.
std::vector<dit_block> blocks_of(const char* name, const at::Tensor& tensor, at::IntArrayRef splits,
                                 const char* splits_name, int ranks) {
  if (tensor.dim() == 0 || !tensor.is_contiguous()) {
    std::ostringstream words;
    words << name << " is a tensor " << tensor.sizes() << " with strides " << tensor.strides()
          << ": expected a contiguous one with at least one dimension";
    throw std::invalid_argument(words.str());
  }
  const std::int64_t rows = tensor.size(0);
  std::vector<std::int64_t> counts(splits.begin(), splits.end());
  if (counts.empty() && rows % ranks == 0) counts.assign(static_cast<std::size_t>(ranks), rows / ranks);
  std::int64_t sum = 0;
  bool right = counts.size() == static_cast<std::size_t>(ranks);
  for (const std::int64_t count : counts) {
    right = right && count >= 0;
    sum += count;
  }
  if (!right || sum != rows) {
    std::ostringstream words;
    words << splits_name << " = " << splits << ": expected " << ranks << " numbers whose sum is " << rows
          << ", the first size of " << name << (splits.empty() ? ", as it does not divide evenly" : "");
    throw std::invalid_argument(words.str());
  }
  const std::size_t row_bytes =
      rows == 0 ? 0 : static_cast<std::size_t>(tensor.numel() / rows) * tensor.element_size();
  std::vector<dit_block> blocks;
  std::size_t offset = 0;
  for (const std::int64_t count : counts) {
    blocks.push_back({offset, static_cast<std::size_t>(count) * row_bytes});
    offset += blocks.back().bytes;
  }
  return blocks;
}

}  // namespace

void all_to_all_blocks(Group& group, const at::Tensor& output, const at::Tensor& input,
                       const std::vector<dit_block>& send, const std::vector<dit_block>& recv,
                       const char* label) {
  const bool on_device = input.is_cuda();
  if (on_device) require_cuda();
  dit_exchange_call call{};
  call.struct_size = sizeof call;
  call.send = input.numel() == 0 ? nullptr : input.data_ptr();
  call.recv = output.numel() == 0 ? nullptr : output.data_ptr();
  call.send_blocks = send.data();
  call.recv_blocks = recv.data();
  call.memory_kind = on_device ? DIT_MEMORY_CUDA : DIT_MEMORY_HOST;
  call.device = on_device ? input.device().index() : 0;
  call.label = label;
  const CurrentDevice current(call.memory_kind, call.device);
  if (on_device) call.stream = current_stream(input.device());
  group.run_uncounted([&] {
    if (!on_device)  // a late rank reads and writes them even when the wait has failed
      return group.context().exchange(call,
                                      std::make_shared<std::array<at::Tensor, 2>>(std::array{output, input}));
    ExchangeRequest request = group.context().start(call);
    request.wait_stream(call.stream);
    request.cancel();  // the stream sees to the rest
  });
}

void all_to_all_rows(Group& group, const at::Tensor& output, const at::Tensor& input,
                     at::IntArrayRef output_splits, at::IntArrayRef input_splits) {
  if (output.device() != input.device() || output.scalar_type() != input.scalar_type()) {
    std::ostringstream words;
    words << "output is of " << output.scalar_type() << " on " << output.device() << ": expected "
          << input.scalar_type() << " on " << input.device() << ", as input is";
    throw std::invalid_argument(words.str());
  }
  const std::vector<dit_block> send = blocks_of("input", input, input_splits, "input_splits", group.size());
  const std::vector<dit_block> recv =
      blocks_of("output", output, output_splits, "output_splits", group.size());
  all_to_all_blocks(group, output, input, send, recv, "all_to_all");
}

}  // namespace dit::operators
