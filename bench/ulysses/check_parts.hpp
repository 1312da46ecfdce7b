/// @file
/// What the checks of transfers share: cases, tensors that lie in other ways, memory.
#pragma once

#include <memory>
#include <optional>

#include "gpu.hpp"
#include "ranks.hpp"

namespace tapa::bench {

/// How a [batch, rows, heads, head_dim] tensor lies in memory.
enum class Lies { dense, slice, heads_first };

struct Case {
  const char* name;
  std::int64_t batch, text, image, heads, kv_heads, dim;
  unsigned flags;
  int groups;
};

inline constexpr Case kCases[] = {
    {"FLUX, small", 1, 32, 96, 24, 24, 128, 0, 1},
    {"uneven tokens and heads", 1, 0, 37, 5, 5, 64, 0, 1},
    {"38 heads", 1, 19, 53, 38, 38, 64, 0, 1},
    {"batch, joint text behind", 3, 7, 22, 6, 6, 32, DIT_LAYOUT_IMAGE_FIRST, 1},
    {"text on all ranks", 2, 9, 31, 8, 8, 32, DIT_LAYOUT_TEXT_REPLICATED, 1},
    {"grouped queries", 1, 5, 40, 12, 4, 64, 0, 1},
    {"fewer heads than ranks", 2, 6, 33, 2, 1, 16, 0, 1},
    {"odd heads of odd bytes", 1, 3, 18, 7, 7, 9, 0, 1},
    {"head groups", 1, 11, 50, 24, 24, 64, 0, 2},
    {"few tokens", 1, 0, 2, 8, 8, 16, 0, 1},
    {"long", 1, 512, 4096, 24, 24, 128, 0, 1},
};
inline constexpr const char* kKinds[] = {"Q", "K", "V", "O"};

struct Placed {
  dit_tensor tensor;  // without data
  std::size_t bytes;
};

inline Placed place(const std::int64_t* shape, Lies lies, std::size_t element_bytes) {
  const std::int64_t batch = shape[0], rows = shape[1], heads = shape[2], dim = shape[3];
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  };
  if (batch * rows * heads * dim == 0) return {{nullptr, 0, 0, 0, 0}, 0};
  if (lies == Lies::dense) return {{nullptr, 0, 0, 0, 0}, bytes(batch * rows * heads * dim)};
  const std::int64_t row = lies == Lies::slice ? 3 * heads * dim : dim;
  const std::int64_t head = lies == Lies::slice ? dim : rows * dim;
  const std::int64_t sample = lies == Lies::slice ? rows * row : heads * rows * dim;
  return {{nullptr, 0, sample, row, head}, bytes(batch * sample)};
}

inline dit_tensor at(const Placed& placed, void* data) {
  dit_tensor tensor = placed.tensor;
  tensor.data = data;
  tensor.bytes = placed.bytes;
  return tensor;
}

/// Device memory that holds any tensor of a check, and its registration, if it has one.
class Arena {
 public:
  Arena(const Session& session, int device, bool registered) : memory_(kBytes) {
    if (registered) registration_.emplace(session.enlist(memory_.get(), kBytes, device));
  }
  [[nodiscard]] char* get(std::size_t bytes) const {
    if (bytes > kBytes) throw std::runtime_error("a case is larger than the check's memory");
    return memory_.get();
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;
  Memory memory_;
  std::optional<Registration> registration_;
};

/// Norm, RoPE and push, of all types, against host memory; how many tensors had other bits. `stores`: also
/// with bound targets.
[[nodiscard]] std::uint64_t check_prepared(Job& job, const Case& of, const Session& host,
                                           const Session& session, int device, bool stores);

}  // namespace tapa::bench
