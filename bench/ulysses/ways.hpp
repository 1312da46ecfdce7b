/// @file
/// Ways to carry the tensors of one attention layer: Q, K and V in, out of a fused product, and O out.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "memory.hpp"
#include "prepared.hpp"
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

/// How Q, K and V go: V, Q, K one after the other; as three samples of one exchange; or by one kernel that
/// stores into the peers' targets.
enum class Method { one_by_one, one_exchange, push };

struct WayOptions {
  std::string name;
  Method method;
  bool prepared;      ///< with RMSNorm and RoPE of Q and K
  Allocate allocate;  ///< of targets and of the transfers' buffers
};

/// Norm and RoPE of Q and of K, as FLUX has them.
struct Preparations {
  explicit Preparations(const Shape& shape)
      : query(DIT_ELEMENT_BF16, DIT_ELEMENT_BF16, DIT_NORM_HEAD, DIT_ROPE_INTERLEAVED, shape.tokens,
              shape.heads, shape.dim),
        key(DIT_ELEMENT_BF16, DIT_ELEMENT_BF16, DIT_NORM_HEAD, DIT_ROPE_INTERLEAVED, shape.tokens,
            shape.kv_heads, shape.dim) {}
  Preparation query, key;
};

/// One way, with targets of its own.
class Way {
 public:
  Way(WayOptions options, const Shape& shape, const Layout& layout, const Sizes& sizes,
      const Session& session, int device, const Preparations& preparations);
  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] bool prepared() const { return options_.prepared; }
  /// Puts a layer's exchanges on a stream.
  void put(const Sources& sources, cudaStream_t stream) const;
  /// Targets: Q, K, V one after the other, then O.
  [[nodiscard]] std::vector<std::uint8_t> results() const;
  void clear() const;

 private:
  void put_inputs(const Sources& sources, cudaStream_t stream) const;
  void give_workspace(const Session& session, const Transfer& transfer);

  WayOptions options_;
  Shape shape_;
  Sizes sizes_;
  int device_;
  std::shared_ptr<char> inputs_, output_;
  Registration registered_inputs_, registered_output_;
  std::vector<std::shared_ptr<char>> workspaces_;
  std::vector<Registration> registered_workspaces_;
  std::optional<Layout> three_;  ///< Q, K and V as three samples: one exchange
  dit_prepare query_, key_;
  std::vector<Transfer> inputs_by_;
  std::vector<Transfer> output_by_;
};

/// What every way must give, by host memory over MPI. `preparations`: null for numbers as they are.
[[nodiscard]] std::vector<std::uint8_t> expected_results(const Shape& shape, const Layout& layout,
                                                         const Sizes& sizes, const Sources& sources,
                                                         Preparations* preparations);

}  // namespace tapa::bench
