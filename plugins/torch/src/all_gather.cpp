#include "all_gather.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "all_to_all.hpp"
#include "layout/layout.hpp"

namespace dit::operators {
namespace {

void require_part(const at::Tensor& x, std::int64_t dim, std::int64_t total, const Group& group) {
  const auto own = static_cast<std::int64_t>(even_part(total, group.size(), group.rank()).size());
  if (x.size(dim) == own) return;
  std::ostringstream words;
  words << "x is a tensor " << x.sizes() << ": expected " << own << " on dimension " << dim << ", rank "
        << group.rank() << "'s part of " << total << " on " << group.size() << " ranks";
  throw std::invalid_argument(words.str());
}

/// The ranks' parts, which lie one behind the other, each dense.
std::vector<at::Tensor> parts_of(const at::Tensor& together, std::vector<std::int64_t> sizes, std::size_t dim,
                                 int ranks) {
  const std::int64_t total = sizes[dim];
  const std::int64_t of_one = total == 0 ? 0 : together.numel() / total;
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const Range part = even_part(total, ranks, rank);
    sizes[dim] = static_cast<std::int64_t>(part.size());
    parts.push_back(together.slice(0, part.begin * of_one, part.end * of_one).view(sizes));
  }
  return parts;
}

}  // namespace

void require_dimension(const at::Tensor& x, std::int64_t dim) {
  if (dim >= 0 && dim < x.dim()) return;
  throw std::invalid_argument("dim is " + std::to_string(dim) + ": expected 0 or more and less than " +
                              std::to_string(x.dim()) + ", the dimensions of x");
}

at::Tensor all_gather(Group& group, const at::Tensor& x, std::int64_t dim, std::int64_t total) {
  require_dimension(x, dim);
  require_part(x, dim, total, group);
  const auto at = static_cast<std::size_t>(dim);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[at] = total;
  const at::Tensor own = x.contiguous();
  const at::Tensor together = at::empty(sizes, x.options());
  const std::vector<at::Tensor> parts = parts_of(together.view({-1}), sizes, at, group.size());
  const std::vector<dit_block> send(parts.size(), {0, own.nbytes()});
  std::vector<dit_block> recv;
  std::size_t offset = 0;
  for (const at::Tensor& part : parts) {
    recv.push_back({offset, part.nbytes()});
    offset += part.nbytes();
  }
  all_to_all_blocks(group, together, own, send, recv, "all_gather");
  const bool outermost =
      std::all_of(sizes.begin(), sizes.begin() + dim, [](std::int64_t size) { return size == 1; });
  return outermost ? together : at::cat(parts, dim);  // there parts lie where they belong
}

}  // namespace dit::operators
