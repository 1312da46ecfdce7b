// Levels, parts of a group, and what a context tells about itself.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <span>

#include "checks.hpp"
#include "known_exchange.hpp"

namespace dit::conformance {
namespace {

using std::to_string;

template <typename Value>
std::vector<Value> gather(ExchangeContext& context, std::span<const Value> own) {
  const std::vector<std::byte> bytes = context.all_gather(std::as_bytes(own));
  std::vector<Value> values(bytes.size() / sizeof(Value));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void rank_and_size(ExchangeContext& context, Findings& findings) {
  findings.expect(context.size() >= 1, "size is " + to_string(context.size()));
  findings.expect(context.rank() >= 0 && context.rank() < context.size(),
                  "rank is " + to_string(context.rank()));
  const int own = context.rank();
  const std::vector<int> ranks = gather<int>(context, {&own, 1});
  for (int rank = 0; rank < context.size(); ++rank)
    findings.expect(
        ranks[static_cast<std::size_t>(rank)] == rank,
        "block " + to_string(rank) + " comes from rank " + to_string(ranks[static_cast<std::size_t>(rank)]));
}

// The same names on all ranks: by number, length and a sum of the letters.
void level_names(ExchangeContext& context, Findings& findings) {
  const std::vector<std::string> names = context.levels();
  findings.expect(!names.empty() && names.size() <= 16,
                  "level_count is " + to_string(names.size()) + ", expected 1 to 16");
  findings.expect(std::set<std::string>(names.begin(), names.end()).size() == names.size(),
                  "two levels have one name");
  std::uint64_t letters = names.size();
  for (const std::string& name : names) {
    findings.expect(!name.empty(), "a level has no name");
    for (const char letter : name + ",") letters = mix(letters, static_cast<std::uint64_t>(letter));
  }
  const int slow = context.slow_level();
  findings.expect(slow >= 0 && slow <= static_cast<int>(names.size()), "slow_level is " + to_string(slow));
  const dit_exchange_plugin& table = context.plugin().table();
  for (const int none : {-1, static_cast<int>(names.size())})
    findings.expect(table.level_name(context.handle(), none) == nullptr,
                    "level_name(" + to_string(none) + ") is not null: there is no such level");
  const std::array<std::uint64_t, 2> own{letters, static_cast<std::uint64_t>(slow)};
  const std::vector<std::uint64_t> all = gather<std::uint64_t>(context, own);
  for (std::size_t rank = 0; rank < all.size() / 2; ++rank)
    findings.expect(all[2 * rank] == own[0] && all[2 * rank + 1] == own[1],
                    "rank " + to_string(rank) + " has other level names, or another slow_level");
}

// level[a * size + b]
void check_level_matrix(const std::vector<int>& level, std::size_t size, Findings& findings) {
  const auto at = [&](std::size_t a, std::size_t b) { return level[a * size + b]; };
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = 0; b < size; ++b) {
      const std::string pair =
          "rank " + to_string(a) + " reaches rank " + to_string(b) + " at level " + to_string(at(a, b));
      findings.expect(at(a, b) == at(b, a), pair + ", but is reached at " + to_string(at(b, a)));
      for (std::size_t c = 0; c < size; ++c)
        findings.expect(at(a, b) <= std::max(at(a, c), at(c, b)),
                        pair + ", but both reach rank " + to_string(c) + " at faster ones: groups must nest");
    }
}

void levels_of_peers(ExchangeContext& context, Findings& findings) {
  const int count = static_cast<int>(context.levels().size());
  std::vector<int> own;
  for (int peer = 0; peer < context.size(); ++peer) {
    own.push_back(context.level_of(peer));
    findings.expect(own.back() >= 0 && own.back() < count, "level_of(" + to_string(peer) + ") is " +
                                                               to_string(own.back()) + " of " +
                                                               to_string(count) + " levels");
  }
  findings.expect(context.level_of(context.rank()) == 0, "level_of the rank itself is not 0");
  check_level_matrix(gather<int>(context, own), static_cast<std::size_t>(context.size()), findings);
}

// Null with a note when the plugin does not split.
std::unique_ptr<ExchangeContext> split(ExchangeContext& context, int colour, int key, Findings& findings,
                                       bool& supported) {
  try {
    supported = true;
    return context.split(colour, key);
  } catch (const ExchangeError& error) {
    if (error.status() != DIT_ERROR_UNSUPPORTED) throw;
    supported = false;
    findings.note("not supported");
    return nullptr;
  }
}

// Halves in reverse order: exchanges in both at once, then in the whole again.
void halves(ExchangeContext& context, Findings& findings) {
  const int size = context.size(), rank = context.rank();
  const int first_half = (size + 1) / 2;
  const bool lower = rank < first_half;
  bool supported = false;
  const auto part = split(context, lower ? 5 : 9, -rank, findings, supported);
  if (!supported) return;
  if (part == nullptr)
    throw ExchangeError(DIT_ERROR_INTERNAL, "split with a colour of 0 or more gave no context");
  findings.expect(part->size() == (lower ? first_half : size - first_half),
                  "a half has " + to_string(part->size()) + " ranks");
  findings.expect(part->rank() == (lower ? first_half : size) - 1 - rank,
                  "rank " + to_string(rank) + " has rank " + to_string(part->rank()) +
                      " in its half: keys were not followed");
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto rows = [&](int a, int b) {
      return static_cast<std::size_t>(
          mix(seed, static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)) % 500);
    };
    findings.problem(exchange_problem(*part, {rows}, seed + (lower ? 0 : 100)));
  }
  levels_of_peers(*part, findings);
  part->close();
  findings.problem(exchange_problem(context, {[](int, int) { return std::size_t{10}; }}, 9));
}

void left_out(ExchangeContext& context, Findings& findings) {
  bool supported = false;
  const auto part = split(context, context.rank() == 0 ? 0 : -1, 0, findings, supported);
  if (!supported) return;
  findings.expect((part != nullptr) == (context.rank() == 0),
                  "a rank with a negative colour has a context, or rank 0 has none");
  if (part != nullptr) part->barrier();
}

// Equal keys: by rank. The whole and its copy are separate: exchanges in both do not meet.
void copy_of_the_whole(ExchangeContext& context, Findings& findings) {
  bool supported = false;
  const auto part = split(context, 0, 7, findings, supported);
  if (part == nullptr) return;
  findings.expect(part->rank() == context.rank(), "equal keys changed the order of the ranks");
  KnownExchange here(context, {[](int, int) { return std::size_t{600}; }}, 1);
  KnownExchange there(*part, {[](int, int) { return std::size_t{600}; }}, 2);
  ExchangeRequest first = context.start(here.call());
  ExchangeRequest second = part->start(there.call());
  second.wait();
  first.wait();
  findings.problem(here.problem());
  findings.problem(there.problem());
}

void totals(ExchangeContext& context, Findings& findings) {
  const dit_exchange_totals before = context.totals();
  std::vector<std::uint64_t> sent(context.levels().size());
  for (const int boundary : {Shape::no_selection, 0}) {
    Shape shape{[](int a, int b) { return static_cast<std::size_t>(3 + 2 * a + b); }, 8, boundary, 0, 1};
    KnownExchange exchange(context, shape, 1);
    context.start(exchange.call()).wait();
    const std::vector<std::uint64_t> bytes = exchange.sent_bytes();
    for (std::size_t level = 0; level < sent.size(); ++level) sent[level] += bytes[level];
  }
  const dit_exchange_totals after = context.totals();
  findings.expect(after.exchanges - before.exchanges == 2,
                  to_string(after.exchanges - before.exchanges) + " exchanges were counted, expected 2");
  for (std::size_t level = 0; level < sent.size(); ++level) {
    const std::uint64_t counted = after.sent_bytes[level] - before.sent_bytes[level];
    findings.expect(counted == sent[level], to_string(counted) + " bytes were counted for level " +
                                                to_string(level) + ", expected " + to_string(sent[level]));
  }
  for (std::size_t level = sent.size(); level < std::size(after.sent_bytes); ++level)
    findings.expect(after.sent_bytes[level] == 0, "bytes were counted for a level that there is not");
  findings.expect(std::isfinite(after.wait_seconds) && after.wait_seconds >= before.wait_seconds,
                  "wait_seconds fell");
}

void describe(ExchangeContext& context, Findings& findings) {
  const std::string words = context.describe();
  findings.expect(!words.empty(), "describe gives no words");
  const dit_exchange_plugin& table = context.plugin().table();
  std::array<char, 5> text;
  text.fill('#');
  findings.expect(table.describe(context.handle(), text.data(), 4) == words.size(),
                  "describe does not return the full length");
  findings.expect(words.substr(0, 3) == std::string(text.data(), std::min<std::size_t>(3, words.size())) &&
                      text[std::min<std::size_t>(3, words.size())] == '\0',
                  "describe into 4 bytes does not give the first 3 and a zero");
  findings.expect(text[4] == '#', "describe wrote past the end");
  findings.note(words);
}

}  // namespace

std::vector<Check> group_checks() {
  return {{"group: rank and size", rank_and_size},
          {"group: level names", level_names},
          {"group: levels of peers", levels_of_peers},
          {"split: halves in reverse order", halves},
          {"split: ranks left out", left_out},
          {"split: a copy of the whole", copy_of_the_whole},
          {"totals", totals},
          {"describe", describe}};
}

}  // namespace dit::conformance
