/// Inputs made from others by chance that is a number: the same corpus, words, seed and run give the same
/// input on every machine. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fuzz {

using Input = std::vector<std::uint8_t>;

inline constexpr std::size_t kMostInputBytes = 4096;

/// Numbers by chance, splitmix64: the standard's distributions differ between libraries.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// From 0 to `count` - 1; `count` is at least 1.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }

 private:
  std::uint64_t state_;
};

enum class Mutation : std::uint8_t {
  flip,    ///< a bit
  number,  ///< a byte becomes another one, often 0, 1, 127, 128 or 255
  insert,  ///< some bytes
  remove,  ///< some bytes
  copy,    ///< some bytes of the input to another place in it
  splice,  ///< what follows is another input's end
  word     ///< of the dictionary, inserted or in place of what is there
};
inline constexpr int kMutations = 7;

/// Words of a dictionary of libFuzzer: a line each, "WORD" or NAME="WORD", with \\, \" and \xAB; # comments.
/// Throws std::invalid_argument that names the line.
[[nodiscard]] std::vector<Input> words_of(std::string_view dictionary);

class Mutator {
 public:
  /// Both outlive it. Either may be empty.
  Mutator(std::span<const Input> corpus, std::span<const Input> words) : corpus_(corpus), words_(words) {}

  /// An input of the corpus, changed a few times; at most kMostInputBytes, or as long as that input was.
  [[nodiscard]] Input make(std::uint64_t seed, std::uint64_t run) const;
  /// One change; false when there is nothing to change that way, and the input stays as it is.
  bool apply(Mutation mutation, Input& input, Chance& chance) const;

 private:
  [[nodiscard]] bool splice(Input& input, Chance& chance) const;
  [[nodiscard]] bool put_word(Input& input, Chance& chance) const;

  std::span<const Input> corpus_;
  std::span<const Input> words_;
};

}  // namespace fuzz
