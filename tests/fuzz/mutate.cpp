#include "mutate.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

namespace fuzz {
namespace {

constexpr std::size_t kMostInserted = 16;
constexpr std::size_t kMostChanges = 6;

using Offset = Input::difference_type;

Offset at(std::size_t index) {
  return static_cast<Offset>(index);
}

bool flip(Input& input, Chance& chance) {
  if (input.empty()) return false;
  std::uint8_t& byte = input[chance.below(input.size())];
  byte = static_cast<std::uint8_t>(byte ^ 1U << chance.below(8));
  return true;
}

bool set_number(Input& input, Chance& chance) {
  constexpr std::uint8_t kEdges[] = {0, 1, 127, 128, 255};
  if (input.empty()) return false;
  const std::size_t place = chance.below(input.size());
  const auto any = static_cast<std::uint8_t>(chance.next());
  input[place] = chance.below(2) == 0 ? kEdges[any % std::size(kEdges)] : any;
  return true;
}

bool insert(Input& input, Chance& chance) {
  const std::size_t place = chance.below(input.size() + 1);
  Input some(1 + chance.below(kMostInserted));
  const bool alike = chance.below(2) == 0;
  const auto same = static_cast<std::uint8_t>(chance.next());
  for (std::uint8_t& byte : some) byte = alike ? same : static_cast<std::uint8_t>(chance.next());
  input.insert(input.begin() + at(place), some.begin(), some.end());
  return true;
}

bool remove(Input& input, Chance& chance) {
  if (input.empty()) return false;
  const std::size_t begin = chance.below(input.size());
  const std::size_t count = 1 + chance.below(std::min(input.size() - begin, kMostInserted));
  input.erase(input.begin() + at(begin), input.begin() + at(begin + count));
  return true;
}

/// Over what is there, or between.
void put(Input& input, const Input& some, Chance& chance) {
  const std::size_t place = chance.below(input.size() + 1);
  const std::size_t over = chance.below(2) == 0 ? std::min(some.size(), input.size() - place) : 0;
  input.erase(input.begin() + at(place), input.begin() + at(place + over));
  input.insert(input.begin() + at(place), some.begin(), some.end());
}

bool copy(Input& input, Chance& chance) {
  if (input.empty()) return false;
  const std::size_t begin = chance.below(input.size());
  const std::size_t count = 1 + chance.below(input.size() - begin);
  const Input some(input.begin() + at(begin), input.begin() + at(begin + count));
  put(input, some, chance);
  return true;
}

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

/// One line's word; empty when it has none that is right.
Input word_of(std::string_view line) {
  const std::size_t begin = line.find('"');
  const std::size_t end = line.rfind('"');
  Input word;
  if (begin == std::string_view::npos || end == begin) return {};
  for (std::size_t i = begin + 1; i < end; ++i) {
    if (line[i] != '\\') {
      word.push_back(static_cast<std::uint8_t>(line[i]));
      continue;
    }
    const std::string_view rest = line.substr(i + 1, end - i - 1);
    if (rest.starts_with('\\') || rest.starts_with('"')) {
      word.push_back(static_cast<std::uint8_t>(rest[0]));
      ++i;
    } else if (rest.size() >= 3 && rest[0] == 'x' && digit_of(rest[1]) >= 0 && digit_of(rest[2]) >= 0) {
      word.push_back(static_cast<std::uint8_t>(16 * digit_of(rest[1]) + digit_of(rest[2])));
      i += 3;
    } else {
      return {};
    }
  }
  return word;
}

}  // namespace

std::uint64_t Chance::next() {
  std::uint64_t mixed = state_ += 0x9E3779B97F4A7C15ULL;
  mixed = (mixed ^ mixed >> 30U) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ mixed >> 27U) * 0x94D049BB133111EBULL;
  return mixed ^ mixed >> 31U;
}

std::vector<Input> words_of(std::string_view dictionary) {
  std::vector<Input> words;
  for (int line = 1; !dictionary.empty(); ++line) {
    const std::size_t end = std::min(dictionary.find('\n'), dictionary.size());
    const std::string_view text = dictionary.substr(0, end);
    dictionary.remove_prefix(std::min(end + 1, dictionary.size()));
    if (text.find_first_not_of(" \t\r") == std::string_view::npos || text.starts_with('#')) continue;
    words.push_back(word_of(text));
    if (words.back().empty())
      throw std::invalid_argument("line " + std::to_string(line) + ": " + std::string(text) +
                                  ": expected a word in quotes");
  }
  return words;
}

bool Mutator::splice(Input& input, Chance& chance) const {
  if (corpus_.empty()) return false;
  const Input& other = corpus_[chance.below(corpus_.size())];
  input.resize(chance.below(input.size() + 1));
  input.insert(input.end(), other.begin() + at(chance.below(other.size() + 1)), other.end());
  return true;
}

bool Mutator::put_word(Input& input, Chance& chance) const {
  if (words_.empty()) return false;
  put(input, words_[chance.below(words_.size())], chance);
  return true;
}

bool Mutator::apply(Mutation mutation, Input& input, Chance& chance) const {
  switch (mutation) {
    case Mutation::flip:
      return flip(input, chance);
    case Mutation::number:
      return set_number(input, chance);
    case Mutation::insert:
      return insert(input, chance);
    case Mutation::remove:
      return remove(input, chance);
    case Mutation::copy:
      return copy(input, chance);
    case Mutation::splice:
      return splice(input, chance);
    case Mutation::word:
      return put_word(input, chance);
  }
  return false;
}

Input Mutator::make(std::uint64_t seed, std::uint64_t run) const {
  Chance chance(Chance(seed).next() ^ run);
  Input input = corpus_.empty() ? Input{} : corpus_[chance.below(corpus_.size())];
  const std::size_t most = std::max(kMostInputBytes, input.size());
  for (std::size_t changes = 1 + chance.below(kMostChanges); changes > 0;) {
    const auto mutation = static_cast<Mutation>(chance.below(kMutations));
    if (apply(mutation, input, chance)) --changes;
  }
  input.resize(std::min(input.size(), most));
  return input;
}

}  // namespace fuzz
