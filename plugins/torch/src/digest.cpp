#include "digest.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "digest_word.hpp"
#include "dit/dit.h"
#include "streams.hpp"

#ifdef DIT_TORCH_CUDA
#include "digest_kernel.hpp"
#endif

namespace dit::operators {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // words of a thread

/// @param begin first word, from 0 on; all of them are whole
std::uint64_t sum_of(const std::byte* bytes, std::size_t begin, std::size_t end) {
  std::uint64_t sum = 0;
  for (std::size_t at = begin; at < end; ++at) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at * sizeof word, sizeof word);
    sum += mixed(word, at + 1);
  }
  return sum;
}

/// Of the last bytes; zeros make a word of them.
std::uint64_t rest_of(const std::byte* bytes, std::size_t count) {
  const std::size_t words = count / 8;
  if (count % 8 == 0) return 0;
  std::uint64_t word = 0;
  std::memcpy(&word, bytes + words * 8, count % 8);
  return mixed(word, words + 1);
}

std::int64_t digest_on_host(const at::Tensor& x) {
  const auto* const bytes = static_cast<const std::byte*>(x.data_ptr());
  std::atomic<std::uint64_t> sum = rest_of(bytes, x.nbytes());
  at::parallel_for(0, static_cast<std::int64_t>(x.nbytes() / 8), kGrain,
                   [&](std::int64_t begin, std::int64_t end) {
                     sum += sum_of(bytes, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
                   });
  return static_cast<std::int64_t>(sum.load());
}

void digest_on_device([[maybe_unused]] const std::vector<at::Tensor>& dense,
                      [[maybe_unused]] const at::Tensor& found) {
  require_cuda();
#ifdef DIT_TORCH_CUDA
  const c10::Device device = found.device();
  const CurrentDevice current(DIT_MEMORY_CUDA, device.index());
  std::vector<DigestJob> jobs;
  for (const at::Tensor& x : dense) jobs.push_back({x.data_ptr(), x.nbytes()});
  const cudaError_t code = start_digests(jobs, static_cast<unsigned long long*>(found.data_ptr()),
                                         static_cast<cudaStream_t>(current_stream(device)));
  if (code != cudaSuccess) throw std::runtime_error(std::string("digests: ") + cudaGetErrorString(code));
#endif
}

/// In words that lie as a device reads them.
at::Tensor dense_and_aligned(const at::Tensor& x) {
  const at::Tensor dense = x.contiguous();
  return reinterpret_cast<std::uintptr_t>(dense.data_ptr()) % 16 == 0 ? dense : dense.clone();
}

}  // namespace

at::Tensor digests(at::TensorList tensors) {
  const c10::Device device = tensors.empty() ? c10::Device(c10::kCPU) : tensors.front().device();
  std::vector<at::Tensor> dense;
  for (const at::Tensor& x : tensors) {
    if (x.device() != device) {
      std::ostringstream words;
      words << "tensors are on " << device << " and on " << x.device() << ": expected one device";
      throw std::invalid_argument(words.str());
    }
    dense.push_back(dense_and_aligned(x));
  }
  const auto count = static_cast<std::int64_t>(dense.size());
  at::Tensor found = at::zeros({count}, at::TensorOptions().dtype(at::kLong).device(device));
  if (device.is_cuda()) {
    digest_on_device(dense, found);
  } else {
    auto* const numbers = found.data_ptr<std::int64_t>();
    for (std::int64_t at = 0; at < count; ++at)
      numbers[at] = digest_on_host(dense[static_cast<std::size_t>(at)]);
  }
  return found;
}

}  // namespace dit::operators
