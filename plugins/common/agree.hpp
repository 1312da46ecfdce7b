/// What is wrong on one rank is known to all, so that none waits for it.
///
/// Collective steps lie in a step of together(), one in another. Each begins with whether all ranks are well:
/// so what a rank throws between two of them, as it may do where it has no memory, all throw at the second.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "common/ranks.hpp"
#include "exchange/plugin_guard.hpp"

namespace dit {

/// All ranks throw it at once, so none is to be told.
class CommonFailure : public PluginFailure {
  using PluginFailure::PluginFailure;
};

/// How a step ended on a rank.
struct Outcome {
  int status = DIT_OK;
  std::array<char, 512> words{};
};
/// Of the exception that is handled now.
[[nodiscard]] Outcome current_outcome() noexcept;
/// Throws CommonFailure when a rank's is not DIT_OK. Collective. Asks for no memory where the ranks are not
/// more than a thousand.
void settle(Ranks& ranks, const Outcome& mine);

/// Runs `step` on all ranks. When it throws on some, all throw CommonFailure: those with their own words, the
/// others with those of the first rank that has some. Collective.
template <class Step>
void together(Ranks& ranks, const Step& step) {
  Outcome mine;
  try {
    step();
  } catch (const CommonFailure&) {
    throw;
  } catch (...) {
    mine = current_outcome();
  }
  settle(ranks, mine);
}

/// Before a collective step that is none of the above.
inline void meet(Ranks& ranks) {
  settle(ranks, {});
}

/// What every rank gives, in order of ranks. Collective. Throws as together() does.
template <class Value>
[[nodiscard]] std::vector<Value> gather(Ranks& ranks, const Value& mine) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> all;
  together(ranks, [&] { all.resize(static_cast<std::size_t>(ranks.size())); });
  ranks.allgather(&mine, all.data(), sizeof(Value));
  return all;
}

}  // namespace dit
