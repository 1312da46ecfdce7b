/// @file
/// What the command line checks of its words. Messages have the value and what was expected; CLI puts the
/// option's name before it.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class Validator;
}

namespace dit::tool {

[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);
[[nodiscard]] CLI::Validator number(double least, double most);
[[nodiscard]] CLI::Validator image_size();
[[nodiscard]] CLI::Validator rank_counts(int most);
[[nodiscard]] CLI::Validator comma_words();
[[nodiscard]] CLI::Validator any_but_empty(const std::string& expected);
[[nodiscard]] CLI::Validator bytes_value();     ///< the target is a number of bytes
[[nodiscard]] CLI::Validator rate_value();      ///< the target is bytes a second
[[nodiscard]] CLI::Validator flops_value();     ///< the target is FLOP/s
[[nodiscard]] CLI::Validator decibel_value();   ///< "35dB" or "35", more than 0
[[nodiscard]] CLI::Validator duration_value();  ///< the target is seconds

}  // namespace dit::tool
