/// The operators dit::* as C++ calls them, by the dispatcher.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <tuple>

namespace dit::test {

using Maybe = c10::optional<at::Tensor>;

/// Arguments that prepare a tensor on its way.
struct Prepared {
  Maybe weight, text_weight, cosine, sine;
  double epsilon = 0;
  std::int64_t norm = 0, rope = 0;
  bool round_norm = false;
};

template <typename Function>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

inline at::Tensor start(const at::Tensor& x, const std::string& exchange, std::int64_t what,
                        std::int64_t layer = 0, const Prepared& how = {}, const Maybe& after = {}) {
  static const auto call = find<at::Tensor(const at::Tensor&, const std::string&, std::int64_t, std::int64_t,
                                           const Maybe&, const Maybe&, const Maybe&, const Maybe&, double,
                                           std::int64_t, std::int64_t, bool, const Maybe&)>("dit::start");
  return call.call(x, exchange, what, layer, how.weight, how.text_weight, how.cosine, how.sine, how.epsilon,
                   how.norm, how.rope, how.round_norm, after);
}

inline at::Tensor finish(const at::Tensor& token, const std::string& exchange, std::int64_t what,
                         std::int64_t layer = 0, const Maybe& after = {}) {
  static const auto call =
      find<at::Tensor(const at::Tensor&, const std::string&, std::int64_t, std::int64_t, const Maybe&)>(
          "dit::finish");
  return call.call(token, exchange, what, layer, after);
}

inline at::Tensor exchange(const at::Tensor& x, const std::string& name, std::int64_t what,
                           std::int64_t layer = 0, const Prepared& how = {}) {
  static const auto call =
      find<at::Tensor(const at::Tensor&, const std::string&, std::int64_t, std::int64_t, const Maybe&,
                      const Maybe&, const Maybe&, const Maybe&, double, std::int64_t, std::int64_t, bool)>(
          "dit::exchange");
  return call.call(x, name, what, layer, how.weight, how.text_weight, how.cosine, how.sine, how.epsilon,
                   how.norm, how.rope, how.round_norm);
}

/// Weights of `q` and `k`; the rest is q's.
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> scatter_qkv(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::string& exchange,
    std::int64_t layer = 0, const Prepared& of_q = {}, const Prepared& of_k = {}) {
  static const auto call = find<std::tuple<at::Tensor, at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::string&, std::int64_t, const Maybe&,
      const Maybe&, const Maybe&, const Maybe&, const Maybe&, const Maybe&, double, std::int64_t,
      std::int64_t, bool)>("dit::scatter_qkv");
  return call.call(q, k, v, exchange, layer, of_q.weight, of_q.text_weight, of_k.weight, of_k.text_weight,
                   of_q.cosine, of_q.sine, of_q.epsilon, of_q.norm, of_q.rope, of_q.round_norm);
}

inline at::Tensor gather(const at::Tensor& o, const std::string& exchange, std::int64_t layer = 0) {
  static const auto call =
      find<at::Tensor(const at::Tensor&, const std::string&, std::int64_t)>("dit::gather");
  return call.call(o, exchange, layer);
}

inline void all_to_all(const at::Tensor& output, const at::Tensor& input, at::IntArrayRef output_splits,
                       at::IntArrayRef input_splits, const std::string& group) {
  static const auto call =
      find<void(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, const std::string&)>(
          "dit::all_to_all");
  call.call(output, input, output_splits, input_splits, group);
}

inline at::Tensor all_gather(const at::Tensor& x, std::int64_t dim, std::int64_t total,
                             const std::string& group) {
  static const auto call =
      find<at::Tensor(const at::Tensor&, std::int64_t, c10::SymInt, const std::string&)>("dit::all_gather");
  return call.call(x, dim, total, group);
}

}  // namespace dit::test
