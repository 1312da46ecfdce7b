#include "models/attention.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace dit {
namespace {

/// The scores of one pass over some of the queries stay in a core's cache.
constexpr std::int64_t kMostScores = 256 * 1024;
constexpr std::int64_t kFewestQueries = 32;  // fewer make slow products

/// exp(+-40) and sums of billions of them fit in fp32, with all its digits.
constexpr double kSafeScore = 40;
/// Where norms are measured: more than rounding adds to kSafeScore, so that exact numbers are never refused.
constexpr double kSafeMeasuredScore = 41;

/// Queries of one pass.
std::int64_t queries_at_once(std::int64_t keys) {
  return std::max(kFewestQueries, kMostScores / std::max<std::int64_t>(keys, 1));
}

/// softmax(scores) values. `safe`: exp of no score overflows, so that no row's largest score need be taken
/// off first; that and dividing afterwards saves passes over the scores, which cost more than the products.
at::Tensor weighted(at::Tensor scores, const at::Tensor& values, bool safe) {
  if (!safe) {
    return at::mm(at::softmax(scores, -1), values);
  }
  scores.exp_();
  return at::mm(scores, values).div_(scores.sum(-1, true));
}

/// What is known of the scores.
enum class Scores : std::uint8_t { any, safe, safe_if_measured };

double largest_norm(const at::Tensor& rows) {
  return std::sqrt(rows.square().sum(-1).max().item<double>());
}

/// One head of one sample: q [queries, head_dim], k and v [keys, head_dim].
at::Tensor one_head(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Scores known) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(1)));
  const at::Tensor scaled = (q * scale).contiguous();
  const at::Tensor keys = k.contiguous().t();
  const at::Tensor values = v.contiguous();
  const bool measures = known == Scores::safe_if_measured;
  const double key_norm = measures ? largest_norm(k) : 0;
  const std::int64_t chunk = queries_at_once(k.size(0));
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < q.size(0); begin += chunk) {
    const std::int64_t count = std::min(chunk, q.size(0) - begin);
    const at::Tensor some = scaled.narrow(0, begin, count);
    // Not a number is no limit either.
    const bool safe = measures ? largest_norm(some) * key_norm <= kSafeMeasuredScore : known == Scores::safe;
    parts.push_back(weighted(at::mm(some, keys), values, safe));
  }
  return parts.empty() ? at::empty_like(scaled) : at::cat(parts, 0);
}

at::Tensor attention_by_head(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             at::IntArrayRef kv_of_head, double most_score, bool measure) {
  const std::int64_t heads = q.size(2);
  const bool wide_type = q.scalar_type() == at::kFloat || q.scalar_type() == at::kDouble;
  const bool safe = wide_type && most_score <= kSafeScore && !at::GradMode::is_enabled();
  const Scores known = !safe ? Scores::any : measure ? Scores::safe_if_measured : Scores::safe;
  std::vector<at::Tensor> results(static_cast<std::size_t>(q.size(0) * heads));
  const auto some_heads = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / heads;
      const std::int64_t h = i % heads;
      const std::int64_t kv = kv_of_head[static_cast<std::size_t>(h)];
      results[static_cast<std::size_t>(i)] = one_head(
          q.select(0, b).select(1, h), k.select(0, b).select(1, kv), v.select(0, b).select(1, kv), known);
    }
  };
  const auto count = static_cast<std::int64_t>(results.size());
  if (at::GradMode::is_enabled()) {  // the graph belongs to this thread
    some_heads(0, count);
  } else {
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      const at::NoGradGuard no_grad;
      some_heads(begin, end);
    });
  }
  return at::stack(results, 1).unflatten(1, {q.size(0), heads}).transpose(0, 1);
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     at::IntArrayRef kv_of_head, double most_score, bool measure) {
  if (q.numel() == 0) {
    return at::empty_like(q);
  }
#if TORCH_VERSION_MAJOR >= 2
  if (!q.is_cpu()) {
    const at::Tensor index = at::tensor(kv_of_head, at::TensorOptions(at::kLong).device(q.device()));
    const bool same = k.size(2) == q.size(2);
    const at::Tensor keys = same ? k : k.index_select(2, index);
    const at::Tensor values = same ? v : v.index_select(2, index);
    return at::scaled_dot_product_attention(q.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2))
        .transpose(1, 2);
  }
#endif
  return attention_by_head(q, k, v, kv_of_head, most_score, measure);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double most_score,
                     bool measure) {
  std::vector<std::int64_t> heads(static_cast<std::size_t>(q.size(2)));
  std::iota(heads.begin(), heads.end(), 0);
  return attention(q, k, v, heads, most_score, measure);
}

}  // namespace dit
