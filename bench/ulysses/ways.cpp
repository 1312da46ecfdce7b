#include "ways.hpp"

#include <algorithm>

namespace tapa::bench {

namespace {

std::size_t bytes_of(std::int64_t elements) {
  return static_cast<std::size_t>(elements) * kElement;
}

/// A part of the fused product: heads from `first` on.
dit_tensor slice(const Shape& shape, void* product, std::size_t bytes, std::int64_t first) {
  const std::int64_t row = (shape.heads + 2 * shape.kv_heads) * shape.dim;
  const std::size_t offset = bytes_of(first * shape.dim);
  return {static_cast<char*>(product) + offset, bytes - offset, 0, row, shape.dim};
}

std::vector<Transfer> input_transfers(const Session& session, const Layout& layout, int memory_kind) {
  std::vector<Transfer> made;
  for (const int kind : {DIT_SCATTER_QUERY, DIT_SCATTER_KEY, DIT_SCATTER_VALUE})
    made.emplace_back(session, layout, kind, kElement, memory_kind);
  return made;
}

/// Calls put(kind, source, target) for V, Q and K.
template <class Put>
void for_inputs(const Shape& shape, const Sizes& sizes, void* product, char* inputs, const Put& put) {
  const std::int64_t first[] = {0, shape.heads, shape.heads + shape.kv_heads};
  const std::size_t bytes[] = {sizes.query, sizes.key, sizes.value};
  const std::size_t at[] = {0, sizes.query, sizes.query + sizes.key};
  for (const std::size_t kind : {2U, 0U, 1U})  // V leaves first
    put(kind, slice(shape, product, sizes.product, first[kind]), dense(inputs + at[kind], bytes[kind]));
}

}  // namespace

dit_attention_shape attention_shape(const Shape& shape) {
  dit_attention_shape made{};
  made.struct_size = sizeof(made);
  made.batch = 1;
  made.text_tokens = shape.text;
  made.image_tokens = shape.tokens - shape.text;
  made.heads = shape.heads;
  made.kv_heads = shape.kv_heads;
  made.head_dim = shape.dim;
  return made;
}

Sizes::Sizes(const Shape& shape, const Layout& layout, int rank) {
  const dit_rank_part part = part_of(layout, rank);
  const std::int64_t queries = part.query_tokens.end - part.query_tokens.begin;
  const std::int64_t heads = part.heads.end - part.heads.begin;
  const std::int64_t kv_heads = part.kv_heads.end - part.kv_heads.begin;
  product = bytes_of(part.sequence_rows * (shape.heads + 2 * shape.kv_heads) * shape.dim);
  query = bytes_of(queries * heads * shape.dim);
  key = value = bytes_of(shape.tokens * kv_heads * shape.dim);
  output = bytes_of(part.sequence_rows * shape.heads * shape.dim);
}

Sources::Sources(const Sizes& sizes, int rank)
    : product_bytes(sizes.product),
      attended_bytes(sizes.query),
      product(sizes.product),
      attended(sizes.query) {
  fill_numbers(product_bytes, DIT_ELEMENT_BF16, 2 * static_cast<std::uint64_t>(rank) + 1);
  randomise(attended_bytes, 2 * static_cast<std::uint64_t>(rank) + 2);
  cuda(cudaMemcpy(product.get(), product_bytes.data(), sizes.product, cudaMemcpyHostToDevice), "cudaMemcpy");
  cuda(cudaMemcpy(attended.get(), attended_bytes.data(), sizes.query, cudaMemcpyHostToDevice), "cudaMemcpy");
}

Way::Way(WayOptions options, const Shape& shape, const Layout& layout, const Sizes& sizes,
         const Session& session, int device, const Preparations& preparations)
    : options_(std::move(options)),
      shape_(shape),
      sizes_(sizes),
      device_(device),
      inputs_(options_.allocate(sizes.inputs())),
      output_(options_.allocate(sizes.output)),
      registered_inputs_(session.enlist(inputs_.get(), sizes.inputs(), device)),
      registered_output_(session.enlist(output_.get(), sizes.output, device)),
      query_(preparations.query.on_device()),
      key_(preparations.key.on_device()) {
  if (options_.method == Method::one_exchange) {
    dit_attention_shape three = attention_shape(shape);
    three.batch = 3;
    int rank = 0, ranks = 1;
    dit_call(dit_session_ranks(session.get(), &rank, &ranks));
    three_.emplace(make_layout(three, ranks));
    inputs_by_.emplace_back(session, *three_, DIT_SCATTER_QUERY, kElement, DIT_MEMORY_CUDA);
  } else {
    inputs_by_ = input_transfers(session, layout, DIT_MEMORY_CUDA);
  }
  if (options_.method == Method::push) {
    for_inputs(shape_, sizes_, inputs_.get(), inputs_.get(),
               [&](std::size_t kind, const dit_tensor&, const dit_tensor& target) {
                 dit_call(dit_transfer_bind(inputs_by_[kind].get(), registered_inputs_.get(), &target));
               });
  }
  output_by_.emplace_back(session, layout, DIT_GATHER_OUTPUT, kElement, DIT_MEMORY_CUDA);
  for (const Transfer& transfer : inputs_by_) give_workspace(session, transfer);
  give_workspace(session, output_by_[0]);
}

void Way::give_workspace(const Session& session, const Transfer& transfer) {
  std::size_t bytes = 0;
  dit_call(dit_transfer_workspace_bytes(transfer.get(), &bytes));
  workspaces_.push_back(options_.allocate(bytes));
  registered_workspaces_.push_back(session.enlist(workspaces_.back().get(), bytes, device_));
  dit_call(dit_transfer_use_workspace(transfer.get(), workspaces_.back().get(), bytes));
}

void Way::put_inputs(const Sources& sources, cudaStream_t stream) const {
  if (three_) {
    dit_tensor source = slice(shape_, sources.product.get(), sizes_.product, 0);
    source.batch_stride = shape_.heads * shape_.dim;
    return inputs_by_[0].put(source, dense(inputs_.get(), sizes_.inputs()), device_, stream);
  }
  std::vector<dit_transfer*> transfers;
  std::vector<dit_transfer_call> calls;
  const dit_prepare* const prepare[] = {&query_, &key_, nullptr};
  for_inputs(shape_, sizes_, sources.product.get(), inputs_.get(),
             [&](std::size_t kind, const dit_tensor& source, const dit_tensor& target) {
               transfers.push_back(inputs_by_[kind].get());
               calls.push_back(Transfer::call_of(source, target, device_, stream,
                                                 options_.prepared ? prepare[kind] : nullptr));
             });
  if (options_.method == Method::push) {
    dit_call(dit_transfer_start_together(transfers.data(), calls.data(), calls.size()));
  }
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    if (options_.method != Method::push) dit_call(dit_transfer_start(transfers[i], &calls[i]));
    dit_call(dit_transfer_wait_stream(transfers[i], stream));
  }
}

void Way::put(const Sources& sources, cudaStream_t stream) const {
  put_inputs(sources, stream);
  output_by_[0].put(dense(sources.attended.get(), sizes_.query), dense(output_.get(), sizes_.output), device_,
                    stream);
}

void Way::clear() const {
  cuda(cudaMemset(inputs_.get(), 0xA5, sizes_.inputs()), "cudaMemset");
  cuda(cudaMemset(output_.get(), 0xA5, sizes_.output), "cudaMemset");
  cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::vector<std::uint8_t> Way::results() const {
  std::vector<std::uint8_t> all(sizes_.inputs() + sizes_.output);
  cuda(cudaMemcpy(all.data(), inputs_.get(), sizes_.inputs(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  cuda(cudaMemcpy(all.data() + sizes_.inputs(), output_.get(), sizes_.output, cudaMemcpyDeviceToHost),
       "cudaMemcpy");
  return all;
}

std::vector<std::uint8_t> expected_results(const Shape& shape, const Layout& layout, const Sizes& sizes,
                                           const Sources& sources, Preparations* preparations) {
  const Session host(Job::host_plugin());
  std::vector<std::uint8_t> product = sources.product_bytes, attended = sources.attended_bytes;
  std::vector<std::uint8_t> all(sizes.inputs() + sizes.output);
  auto* const inputs = reinterpret_cast<char*>(all.data());
  const std::vector<Transfer> by = input_transfers(host, layout, DIT_MEMORY_HOST);
  for_inputs(shape, sizes, product.data(), inputs,
             [&](std::size_t kind, const dit_tensor& source, const dit_tensor& target) {
               dit_prepare how{};
               if (preparations != nullptr && kind < 2)
                 how = kind == 0 ? preparations->query.on_host() : preparations->key.on_host();
               by[kind].run(source, target, 0, nullptr, how.struct_size != 0 ? &how : nullptr);
             });
  Transfer(host, layout, DIT_GATHER_OUTPUT, kElement, DIT_MEMORY_HOST)
      .run(dense(attended.data(), sizes.query), dense(inputs + sizes.inputs(), sizes.output));
  return all;
}

}  // namespace tapa::bench
