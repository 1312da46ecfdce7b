/// What all ranks must have said alike before something is made of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "exchange/exchange.hpp"
#include "layout/layout.hpp"

namespace dit::c_interface {

using NamedNumber = std::pair<const char*, std::int64_t>;

/// Collective. Compares the numbers that `numbers` gives; it throws for what is wrong on this rank. Throws on
/// all ranks: its own exception where there is one, else std::invalid_argument with the first other rank's
/// words, or that names the number that differs and the ranks' values. All ranks give as many numbers.
void agree(ExchangeContext& context, const std::function<std::vector<NamedNumber>()>& numbers);

/// All that makes a layout, but for the number of ranks.
[[nodiscard]] std::vector<NamedNumber> shape_numbers(const UlyssesLayout& layout);

/// A number for a text: equal for equal texts.
[[nodiscard]] std::int64_t number_of(std::string_view text);

}  // namespace dit::c_interface
