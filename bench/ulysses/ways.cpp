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

/// Calls put(transfer, source, target) for Q, K and V.
template <class Put>
void for_inputs(const Shape& shape, const Sizes& sizes, const std::vector<Transfer>& by, void* product,
                char* inputs, const Put& put) {
  const std::int64_t first[] = {0, shape.heads, shape.heads + shape.kv_heads};
  const std::size_t bytes[] = {sizes.query, sizes.key, sizes.value};
  const std::size_t at[] = {0, sizes.query, sizes.query + sizes.key};
  for (const std::size_t kind : {2U, 0U, 1U})  // V leaves first
    put(by[kind], slice(shape, product, sizes.product, first[kind]), dense(inputs + at[kind], bytes[kind]));
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
    : product_bytes(sizes.product), attended_bytes(sizes.query), product(sizes.product), attended(sizes.query) {
  randomise(product_bytes, 2 * static_cast<std::uint64_t>(rank) + 1);
  randomise(attended_bytes, 2 * static_cast<std::uint64_t>(rank) + 2);
  cuda(cudaMemcpy(product.get(), product_bytes.data(), sizes.product, cudaMemcpyHostToDevice), "cudaMemcpy");
  cuda(cudaMemcpy(attended.get(), attended_bytes.data(), sizes.query, cudaMemcpyHostToDevice), "cudaMemcpy");
}

Way::Way(std::string name, const Shape& shape, const Layout& layout, const Sizes& sizes, const Session& session,
         int device, bool one_exchange)
    : name_(std::move(name)),
      shape_(shape),
      sizes_(sizes),
      device_(device),
      inputs_(sizes.inputs()),
      output_(sizes.output),
      registered_inputs_(session.enlist(inputs_.get(), inputs_.bytes(), device)),
      registered_output_(session.enlist(output_.get(), output_.bytes(), device)) {
  if (one_exchange) {
    dit_attention_shape three = attention_shape(shape);
    three.batch = 3;
    int rank = 0, ranks = 1;
    dit_call(dit_session_ranks(session.get(), &rank, &ranks));
    three_.emplace(make_layout(three, ranks));
    inputs_by_.emplace_back(session, *three_, DIT_SCATTER_QUERY, kElement, DIT_MEMORY_CUDA);
  } else {
    inputs_by_ = input_transfers(session, layout, DIT_MEMORY_CUDA);
  }
  output_by_.emplace_back(session, layout, DIT_GATHER_OUTPUT, kElement, DIT_MEMORY_CUDA);
}

void Way::put_inputs(const Sources& sources, cudaStream_t stream) const {
  if (three_) {
    dit_tensor source = slice(shape_, sources.product.get(), sizes_.product, 0);
    source.batch_stride = shape_.heads * shape_.dim;
    return inputs_by_[0].put(source, dense(inputs_.get(), sizes_.inputs()), device_, stream);
  }
  for_inputs(shape_, sizes_, inputs_by_, sources.product.get(), inputs_.get(),
             [&](const Transfer& by, const dit_tensor& source, const dit_tensor& target) {
               by.put(source, target, device_, stream);
             });
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
                                           const Sources& sources) {
  const Session host("mpi");
  std::vector<std::uint8_t> product = sources.product_bytes, attended = sources.attended_bytes;
  std::vector<std::uint8_t> all(sizes.inputs() + sizes.output);
  auto* const inputs = reinterpret_cast<char*>(all.data());
  for_inputs(shape, sizes, input_transfers(host, layout, DIT_MEMORY_HOST), product.data(), inputs,
             [](const Transfer& by, const dit_tensor& source, const dit_tensor& target) {
               by.run(source, target);
             });
  Transfer(host, layout, DIT_GATHER_OUTPUT, kElement, DIT_MEMORY_HOST)
      .run(dense(attended.data(), sizes.query), dense(inputs + sizes.inputs(), sizes.output));
  return all;
}

}  // namespace tapa::bench
