/// Scaled dot-product attention on whole heads.
#pragma once

#include <ATen/ATen.h>

#include <limits>

namespace dit {

constexpr double kUnknownScore = std::numeric_limits<double>::infinity();

/// softmax(q k^T / sqrt(head_dim)) v. q: [batch, queries, heads, head_dim]; k, v: [batch, keys, kv_heads,
/// head_dim], query head h uses kv head first_kv(h) = (first_head + h) * kv_total / heads_total - kv_begin,
/// given by `kv_of_head` (one entry per head); result as q. On CPUs each head of each sample is computed
/// alone, with the same operations whatever else is in the tensors: the result for a head does not depend on
/// how heads are grouped. `most_score`: no |q k^T| / sqrt(head_dim) of the model's own numbers is larger,
/// where that is known (QK-norm); a small one makes the softmax on CPUs cheaper. `measure`: a codec was
/// between, and norms must agree before the bound is used; numbers within it give the same bits either way.
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   at::IntArrayRef kv_of_head, double most_score = kUnknownScore,
                                   bool measure = false);
/// The same with as many kv heads as heads.
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   double most_score = kUnknownScore, bool measure = false);

}  // namespace dit
