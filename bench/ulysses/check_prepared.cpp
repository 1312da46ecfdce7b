#include <cstdio>

#include "check_parts.hpp"
#include "prepared.hpp"

namespace tapa::bench {

namespace {

struct How {
  int element_type, weight_type, norm, rope;
  bool round_norm;
};
constexpr How kHows[] = {
    {DIT_ELEMENT_BF16, DIT_ELEMENT_BF16, DIT_NORM_HEAD, DIT_ROPE_INTERLEAVED, false},
    {DIT_ELEMENT_BF16, DIT_ELEMENT_FP32, DIT_NORM_HEAD, DIT_ROPE_HALVES, true},
    {DIT_ELEMENT_BF16, DIT_ELEMENT_BF16, DIT_NORM_TOKEN, DIT_ROPE_INTERLEAVED, false},
    {DIT_ELEMENT_FP16, DIT_ELEMENT_FP16, DIT_NORM_HEAD, DIT_ROPE_NONE, false},
    {DIT_ELEMENT_FP16, DIT_ELEMENT_FP32, DIT_NORM_NONE, DIT_ROPE_HALVES, false},
    {DIT_ELEMENT_FP32, DIT_ELEMENT_FP32, DIT_NORM_TOKEN, DIT_ROPE_HALVES, false},
    {DIT_ELEMENT_FP32, DIT_ELEMENT_FP32, DIT_NORM_NONE, DIT_ROPE_NONE, false},
};

/// Q, K and V of a rank in one fused product, and their targets in one arena.
class Layer {
 public:
  Layer(Job& job, const Case& of, const How& how, const Session& host, const Session& session, int device)
      : job_(job), of_(of), how_(how), device_(device), layout_(make_layout(shape_of(of), job.size())) {
    const std::size_t element = bytes_of_type(how.element_type);
    for (int kind = DIT_SCATTER_QUERY; kind <= DIT_SCATTER_VALUE; ++kind) {
      reference_.emplace_back(host, layout_, kind, element, DIT_MEMORY_HOST);
      tested_.emplace_back(session, layout_, kind, element, DIT_MEMORY_CUDA);
    }
    const dit_rank_part part = part_of(layout_, job.rank());
    row_ = (of.heads + 2 * of.kv_heads) * of.dim;
    rows_ = part.sequence_rows;
    product_.resize(static_cast<std::size_t>(of.batch * rows_ * row_) * element);
    fill_numbers(product_, how.element_type, static_cast<std::uint64_t>(job.rank()) + 5);
    std::size_t at = 0;
    for (const Transfer& transfer : tested_) {
      offset_.push_back(at);
      at += (transfer.target_bytes() + 63) / 64 * 64;
    }
    target_bytes_ = at;
    device_product_ = std::make_unique<Memory>(product_.size() + 16);
    targets_ = std::make_unique<Memory>(
        static_cast<std::size_t>(Job::greatest(static_cast<double>(target_bytes_))) + 64);
    cuda(cudaMemcpy(device_product_->get(), product_.data(), product_.size(), cudaMemcpyHostToDevice),
         "cudaMemcpy");
    for (int kind = 0; kind < 2; ++kind) {
      const std::int64_t heads = kind == 0 ? of.heads : of.kv_heads;
      preparations_.emplace_back(how.element_type, how.weight_type, how.norm, how.rope, of.text + of.image,
                                 heads, of.dim);
      preparations_.back().round_norm(how.round_norm);
    }
    expect();
  }

  void enlist(const Session& session) {
    registration_.emplace(session.enlist(targets_->get(), targets_->bytes(), device_));
    for (std::size_t kind = 0; kind < tested_.size(); ++kind) {
      const dit_tensor target = target_of(kind, targets_->get());
      // What one rank lacks is an error of all, and none waits for it.
      if (dit_transfer_bind(tested_[kind].get(), registration_->get(),
                            job_.rank() == 0 ? nullptr : &target) != DIT_ERROR_ARGUMENT) {
        throw std::runtime_error(
            "dit_transfer_bind with a null target on rank 0 is no error of the argument");
      }
      dit_call(dit_transfer_bind(tested_[kind].get(), registration_->get(), &target));
    }
  }

  /// One by one, or together.
  [[nodiscard]] std::uint64_t run(const Stream& stream, bool together) {
    cuda(cudaMemset(targets_->get(), 0xA5, targets_->bytes()), "cudaMemset");
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    Job::barrier();  // peers store into it
    std::vector<dit_prepare> hows;
    for (const Preparation& preparation : preparations_) hows.push_back(preparation.on_device());
    std::vector<dit_transfer_call> calls;
    std::vector<dit_transfer*> transfers;
    for (std::size_t kind = 0; kind < tested_.size(); ++kind) {
      calls.push_back(Transfer::call_of(source_of(kind, device_product_->get()),
                                        target_of(kind, targets_->get()), device_, stream.get(),
                                        kind < 2 ? &hows[kind] : nullptr));
      transfers.push_back(tested_[kind].get());
      if (!together) {
        dit_call(dit_transfer_start(transfers[kind], &calls[kind]));
        dit_call(dit_transfer_wait(transfers[kind]));
      }
    }
    if (together) {
      dit_call(dit_transfer_start_together(transfers.data(), calls.data(), calls.size()));
      for (dit_transfer* transfer : transfers) dit_call(dit_transfer_wait_stream(transfer, stream.get()));
    }
    stream.wait();
    return compare(together);
  }

 private:
  [[nodiscard]] dit_tensor source_of(std::size_t kind, void* product) const {
    const std::int64_t first[] = {0, of_.heads, of_.heads + of_.kv_heads};
    const std::size_t offset =
        static_cast<std::size_t>(first[kind] * of_.dim) * bytes_of_type(how_.element_type);
    const std::size_t bytes = product_.size() > offset ? product_.size() - offset : 0;
    return {static_cast<char*>(product) + offset, bytes, rows_ * row_, row_, of_.dim};
  }
  [[nodiscard]] dit_tensor target_of(std::size_t kind, void* arena) const {
    return dense(static_cast<char*>(arena) + offset_[kind], tested_[kind].target_bytes());
  }

  void expect() {
    expected_.assign(target_bytes_, 0xA5);
    for (std::size_t kind = 0; kind < reference_.size(); ++kind) {
      const dit_prepare how = kind < 2 ? preparations_[kind].on_host() : dit_prepare{};
      reference_[kind].run(source_of(kind, product_.data()), target_of(kind, expected_.data()), 0, nullptr,
                           kind < 2 ? &how : nullptr);
    }
  }

  std::uint64_t compare(bool together) {
    std::vector<std::uint8_t> got(target_bytes_);
    cuda(cudaMemcpy(got.data(), targets_->get(), got.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    Job::barrier();  // before peers store again
    if (got == expected_) return 0;
    std::size_t first = 0, count = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] == expected_[i]) continue;
      if (count++ == 0) first = i;
    }
    std::fprintf(
        stderr,
        "rank %d: %s, element %d, weight %d, norm %d, rope %d, %s, %s: %zu of %zu bytes differ, first at "
        "%zu (K from %zu, V from %zu): %02x%02x, expected %02x%02x\n",
        job_.rank(), of_.name, how_.element_type, how_.weight_type, how_.norm, how_.rope,
        registration_ ? "pushed" : "by exchange", together ? "together" : "one by one", count, got.size(),
        first, offset_[1], offset_[2], got[first | 1], got[first & ~std::size_t{1}], expected_[first | 1],
        expected_[first & ~std::size_t{1}]);
    return 1;
  }

  Job& job_;
  Case of_;
  How how_;
  int device_;
  Layout layout_;
  std::vector<Transfer> reference_;
  std::int64_t row_ = 0, rows_ = 0;
  std::vector<std::uint8_t> product_, expected_;
  std::vector<std::size_t> offset_;
  std::size_t target_bytes_ = 0;
  std::unique_ptr<Memory> device_product_, targets_;
  std::vector<Preparation> preparations_;
  std::optional<Registration> registration_;
  std::vector<Transfer> tested_;
};

}  // namespace

std::uint64_t check_prepared(Job& job, const Case& of, const Session& host, const Session& session,
                             int device, bool stores) {
  const Stream stream;
  std::uint64_t wrong = 0;
  for (const How& how : kHows) {
    if (how.rope != DIT_ROPE_NONE && of.dim % 2 != 0) continue;
    if (of.image > 1000 && how.element_type != DIT_ELEMENT_BF16) continue;
    Layer layer(job, of, how, host, session, device);
    wrong += layer.run(stream, false);
    wrong += layer.run(stream, true);
    if (!stores) continue;
    layer.enlist(session);
    wrong += layer.run(stream, false);
    wrong += layer.run(stream, true);
  }
  return wrong;
}

}  // namespace tapa::bench
