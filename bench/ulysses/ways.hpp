/// @file
/// Ways to carry the tensors of one attention layer: Q, K and V in, out of a fused product, and O out.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "ranks.hpp"

namespace tapa::bench {

struct Shape {
  std::int64_t tokens, text, heads, kv_heads, dim;
};
inline constexpr std::size_t kElement = 2;  ///< bytes: bf16

[[nodiscard]] dit_attention_shape attention_shape(const Shape& shape);

/// Bytes of a rank's tensors.
struct Sizes {
  Sizes(const Shape& shape, const Layout& layout, int rank);
  std::size_t product;            ///< [rows, heads + 2 kv_heads, dim]: what the projection leaves
  std::size_t query, key, value;  ///< in the head layout
  std::size_t output;             ///< [rows, heads, dim]
  [[nodiscard]] std::size_t inputs() const { return query + key + value; }
};

/// What all ways read, in device memory and on the host.
struct Sources {
  Sources(const Sizes& sizes, int rank);
  std::vector<std::uint8_t> product_bytes, attended_bytes;
  Memory product;   ///< of the projection
  Memory attended;  ///< O in the head layout
};

/// One way, with targets of its own.
class Way {
 public:
  Way(std::string name, const Shape& shape, const Layout& layout, const Sizes& sizes, const Session& session,
      int device, bool one_exchange);
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Puts a layer's exchanges on a stream.
  void put(const Sources& sources, cudaStream_t stream) const;
  /// Targets: Q, K, V one after the other, then O.
  [[nodiscard]] std::vector<std::uint8_t> results() const;
  void clear() const;

 private:
  void put_inputs(const Sources& sources, cudaStream_t stream) const;

  std::string name_;
  Shape shape_;
  Sizes sizes_;
  int device_;
  Memory inputs_, output_;
  Registration registered_inputs_, registered_output_;
  std::optional<Layout> three_;   ///< Q, K and V as three samples: one exchange
  std::vector<Transfer> inputs_by_;
  std::vector<Transfer> output_by_;
};

/// What every way must give, by host memory over MPI.
[[nodiscard]] std::vector<std::uint8_t> expected_results(const Shape& shape, const Layout& layout,
                                                         const Sizes& sizes, const Sources& sources);

}  // namespace tapa::bench
