/// Checks of what a caller gives to an exchange plugin, in one place, so that every plugin says the same
/// words.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "dit/exchange.h"

namespace dit {

/// Where a rank stands in its context: what a plugin needs to know to read a call.
struct ContextPlace {
  int rank = 0;
  int level_count = 1;
  std::span<const int> levels;  ///< level of each peer; size of the context many
  int channels = 1;             ///< 0 and those that were opened

  [[nodiscard]] std::size_t size() const { return levels.size(); }
};

/// What is wrong with a call, "" when nothing is: names the argument, its value and what would be right. A
/// plugin returns DIT_ERROR_ARGUMENT with these words, before it does anything. The call may be a caller's of
/// an older version: a plugin reads completed(call) of struct_sizes.hpp.
[[nodiscard]] std::string check_call(const dit_exchange_call* call, const ContextPlace& place);

/// "" when the call's buffers are in host memory, else the words for DIT_ERROR_UNSUPPORTED. After check_call.
[[nodiscard]] std::string check_host_memory(const dit_exchange_call& call, const char* plugin);

/// "" when no block has strides, else the words for DIT_ERROR_UNSUPPORTED. After check_call.
[[nodiscard]] std::string check_not_strided(const dit_exchange_call& call, const char* plugin);

/// What is wrong with the arguments of open, but for its config; "" when nothing is.
[[nodiscard]] std::string check_open(const dit_open_options* options, dit_context* const* context);

/// What is wrong with the argument of totals; "" when nothing is.
[[nodiscard]] std::string check_totals(const dit_exchange_totals* totals);

/// Copies words for describe: at most `bytes` with the final zero. Returns the full length of the words.
std::size_t copy_text(const std::string& words, char* text, std::size_t bytes);

/// "the exchange", or "exchange 'v of block 3'" for a call with a label.
[[nodiscard]] std::string call_name(const char* label);

/// "host", "cuda", or the number.
[[nodiscard]] std::string memory_kind_name(int kind);

}  // namespace dit
