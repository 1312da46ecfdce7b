/// What the ranks of a node have started, in memory that they share: names those that an exchange waits for.
/// The program's functions cannot tell, as they only return when all have come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/ranks.hpp"

namespace dit {

/// Not thread-safe, but for other ranks that look.
class SharedStarts {
 public:
  /// Collective. `node_of` each rank, whatever its number. Null where memory cannot be shared.
  [[nodiscard]] static std::unique_ptr<SharedStarts> make(Ranks& ranks, const std::vector<int>& node_of);
  ~SharedStarts();
  SharedStarts(const SharedStarts&) = delete;
  SharedStarts& operator=(const SharedStarts&) = delete;

  /// This rank has come to step `number` of a channel.
  void set(int channel, std::uint64_t number);
  /// "rank 1, rank 3": who has not come to it, as far as can be seen; "" when nobody is known.
  [[nodiscard]] std::string missing(int channel, std::uint64_t number) const;

 private:
  SharedStarts(int rank, const std::vector<int>& node_of);
  [[nodiscard]] bool map(int file);
  [[nodiscard]] std::uint64_t* at(std::size_t rank, int channel) const;

  std::size_t rank_;
  std::vector<int> node_of_;
  std::uint64_t* counts_ = nullptr;
};

}  // namespace dit
