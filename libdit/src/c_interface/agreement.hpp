/// What all ranks must have said alike before something is made of it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "exchange/exchange.hpp"

namespace dit::c_interface {

using NamedNumber = std::pair<const char*, std::int64_t>;

/// Collective. Runs `check`, which throws for what is wrong on this rank, then compares the numbers. Throws
/// on all ranks: its own exception where there is one, else std::invalid_argument with the first other rank's
/// words, or that names the number that differs and the ranks' values.
void agree(ExchangeContext& context, const std::function<void()>& check,
           std::initializer_list<NamedNumber> numbers);

/// A number for a text: equal for equal texts.
[[nodiscard]] std::int64_t number_of(std::string_view text);

}  // namespace dit::c_interface
