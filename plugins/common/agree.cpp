#include "common/agree.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>

namespace dit {
namespace {

/// What ranks say of `Value`s, on the stack if they are not very many.
template <class Value>
class Said {
 public:
  explicit Said(std::size_t ranks) {
    if (ranks > few_.size()) many_.resize(ranks);
    all_ = many_.empty() ? std::span(few_.data(), ranks) : std::span(many_);
  }
  std::span<Value> gather(Ranks& ranks, const Value& mine) {
    ranks.allgather(&mine, all_.data(), sizeof(Value));
    return all_;
  }

 private:
  std::array<Value, 1024> few_;
  std::vector<Value> many_;
  std::span<Value> all_;
};

/// The words of a rank whose outcome is bad.
Outcome outcome_of(Ranks& ranks, std::size_t rank, const Outcome& mine) {
  using Piece = std::array<char, 32>;  // all ranks' words at once would be long
  static_assert(sizeof(mine.words) % sizeof(Piece) == 0);
  Said<Piece> said(static_cast<std::size_t>(ranks.size()));
  Outcome theirs;
  for (std::size_t at = 0; at < theirs.words.size(); at += sizeof(Piece)) {
    Piece piece;
    std::memcpy(piece.data(), &mine.words[at], sizeof(Piece));
    std::memcpy(&theirs.words[at], said.gather(ranks, piece)[rank].data(), sizeof(Piece));
  }
  return theirs;
}

}  // namespace

Outcome current_outcome() noexcept {
  Outcome outcome;
  outcome.status = status_of_exception(
      [&](const char* words) { std::snprintf(outcome.words.data(), outcome.words.size(), "%s", words); });
  return outcome;
}

void settle(Ranks& ranks, const Outcome& mine) {
  Said<int> said(static_cast<std::size_t>(ranks.size()));
  const std::span<int> all = said.gather(ranks, mine.status);
  const auto first = std::find_if(all.begin(), all.end(), [](int status) { return status != DIT_OK; });
  if (first == all.end()) return;
  const auto status = static_cast<dit_status>(*first);
  const auto rank = static_cast<std::size_t>(first - all.begin());
  const Outcome theirs = outcome_of(ranks, rank, mine);
  if (mine.status != DIT_OK) throw CommonFailure(static_cast<dit_status>(mine.status), mine.words.data());
  std::array<char, sizeof(theirs.words) + 32> words{};
  std::snprintf(words.data(), words.size(), "rank %zu: %s", rank, theirs.words.data());
  throw CommonFailure(status, words.data());
}

}  // namespace dit
