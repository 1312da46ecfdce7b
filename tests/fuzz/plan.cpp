// Plans: "FACTORS BYTES PLAN". A text that is read is written as it was read, and its plan moves every block
// where it belongs: the verifier replays it. BYTES is what all blocks have, or vSEED: each another number.
#include <charconv>
#include <random>
#include <vector>

#include "explain/verify.hpp"
#include "fuzz.hpp"
#include "plan/choice.hpp"
#include "plan/cost.hpp"
#include "plan/planner.hpp"
#include "topology/override.hpp"

namespace {

constexpr int kMostRanks = 16;
constexpr std::size_t kMostBytes = 512;

std::string_view take_word(std::string_view& text) {
  const std::size_t blank = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, blank);
  text.remove_prefix(std::min(blank + 1, text.size()));
  return word;
}

std::size_t number(std::string_view word) {
  std::size_t value = 0;
  (void)std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

tapa::Counts counts_of(std::string_view word, int ranks) {
  if (!word.starts_with("v")) return tapa::Counts::uniform(ranks, number(word) % (kMostBytes + 1));
  std::mt19937 random(static_cast<std::uint32_t>(number(word.substr(1))));
  std::vector<std::size_t> matrix(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks));
  for (std::size_t& bytes : matrix) bytes = random() % 4 == 0 ? 0 : random() % 40;
  return tapa::Counts::matrix(ranks, std::move(matrix));
}

void check_plan(const tapa::Topology& topology, const tapa::Counts& counts, const tapa::Choice& choice) {
  if (!tapa::why_not(topology, choice).empty()) return;
  if (choice.algorithm == tapa::Algorithm::mpi || choice.algorithm == tapa::Algorithm::memory) return;
  if (choice.pipeline > 16) return;  // as right as others, and slow to replay
  const tapa::Plan plan = tapa::make_plan(topology, counts, choice);
  const std::vector<tapa::Defect> defects = tapa::verify(plan, counts);
  fuzz::require(defects.empty(),
                defects.empty() ? "" : tapa::to_string(choice) + ": " + defects.front().what);
  const double seconds = tapa::predict(topology, tapa::rates_from(topology), choice, 64);
  fuzz::require(seconds >= 0 && seconds < 1e6, "a plan takes a sensible time");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input = fuzz::text_of(data, size);
  const std::string factors(take_word(input));
  const std::string_view bytes = take_word(input);
  tapa::Choice choice;
  try {
    choice = tapa::parse_choice(input);
  } catch (const std::invalid_argument& error) {
    fuzz::require_words(error);
    return 0;
  }
  const std::string text = tapa::to_string(choice);
  fuzz::require(tapa::parse_choice(text) == choice, "a plan's text is read as it was written: " + text);
  try {
    const std::vector<int> groups = tapa::parse_factors(factors);
    if (tapa::ranks_of(groups) > kMostRanks) return 0;
    const tapa::Topology topology = tapa::make_uniform_topology(groups);
    check_plan(topology, counts_of(bytes, topology.ranks), choice);
  } catch (const std::invalid_argument& error) {
    fuzz::require_words(error);
  }
  return 0;
}
