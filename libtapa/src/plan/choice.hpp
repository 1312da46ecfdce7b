/// @file
/// Which plan: an algorithm and its settings, as a value with a text form ("tapa:split=node,slow=bruck(2)").
/// The same text is used by TAPA_PLAN, the tuning file, tapa-plan, reports and benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapa {

/// How blocks move between the members of one set of ranks.
enum class FlatAlgorithm : std::uint8_t { linear, pairwise, bruck };

/// A flat exchange and its settings.
struct Flat {
  FlatAlgorithm algorithm = FlatAlgorithm::linear;
  int radix = 2;   ///< bruck only, >= 2
  int window = 0;  ///< linear only: sends in flight, 0 = no bound
  bool operator==(const Flat&) const = default;
};

enum class Algorithm : std::uint8_t { mpi, memory, linear, pairwise, bruck, tapa, leaders };

/// Whether blocks first move inside the group (to the lane of their destination) or first between groups.
enum class PhaseOrder : std::uint8_t { fast_first, slow_first };

struct Choice {
  Algorithm algorithm = Algorithm::linear;
  Flat flat{};                        ///< for linear, pairwise, bruck: settings of the one exchange
  std::vector<std::string> splits{};  ///< tapa, leaders: level names whose groups are cut, fast to slow
  PhaseOrder order = PhaseOrder::fast_first;  ///< tapa
  Flat fast{};                                ///< tapa, leaders: exchange inside a group
  Flat slow{};                                ///< tapa, leaders: exchange between groups
  int leaders = 1;                            ///< leaders: per group; 0 = all members
  int pipeline = 1;          ///< tapa, leaders: sub-messages that each fast message is cut into
  bool local_direct = true;  ///< leaders: blocks that stay in the group go straight to their destination
  bool operator==(const Choice&) const = default;
};

/// Canonical text. Settings at their default are left out:
///   mpi | memory | linear[:window=W] | pairwise | bruck[:radix=R] |
///   tapa:split=L[+L...][,order=slow-first][,fast=FLAT][,slow=FLAT][,pipeline=N] |
///   leaders:split=L[,leaders=K|all][,local=leader][,fast=FLAT][,slow=FLAT][,pipeline=N]
/// with FLAT = linear | linear(W) | pairwise | bruck(R).
[[nodiscard]] std::string to_string(const Choice& choice);
[[nodiscard]] std::string to_string(const Flat& flat);

/// Inverse of to_string. Throws std::invalid_argument that names the word, its value and what was expected.
[[nodiscard]] Choice parse_choice(std::string_view text);

}  // namespace tapa
