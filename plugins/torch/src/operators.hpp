/// The operators dit::* on an exchange, by its name.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <tuple>

#include "preparation.hpp"

namespace dit::operators {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

[[nodiscard]] at::Tensor start(const at::Tensor& x, const std::string& exchange, std::int64_t what,
                               std::int64_t layer, const MaybeTensor& weight, const MaybeTensor& text_weight,
                               const MaybeTensor& cosine, const MaybeTensor& sine, double epsilon,
                               std::int64_t norm, std::int64_t rope, bool round_norm,
                               const MaybeTensor& after);
[[nodiscard]] at::Tensor finish(const at::Tensor& token, const std::string& exchange, std::int64_t what,
                                std::int64_t layer, const MaybeTensor& after);
[[nodiscard]] at::Tensor gather(const at::Tensor& o, const std::string& exchange, std::int64_t layer);
[[nodiscard]] Three scatter_qkv(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const std::string& exchange, std::int64_t layer, const MaybeTensor& q_weight,
                                const MaybeTensor& q_text_weight, const MaybeTensor& k_weight,
                                const MaybeTensor& k_text_weight, const MaybeTensor& cosine,
                                const MaybeTensor& sine, double epsilon, std::int64_t norm, std::int64_t rope,
                                bool round_norm);

}  // namespace dit::operators
