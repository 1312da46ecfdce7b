/// Ranks that reach each other on the host: what exchanges of device memory need to be made ready and to end.
/// By MPI, or by functions of the program's.
#pragma once

#include <cstddef>
#include <optional>

namespace dit {

/// One of them. Functions throw PluginFailure.
class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Every rank gives `bytes` bytes, and gets those of all, in order of ranks. Collective.
  virtual void allgather(const void* mine, void* all, std::size_t bytes) = 0;
  /// The greatest of what ranks give, or nothing when they have not all come within `limit` seconds (0: there
  /// is no limit): then the ranks are of no use any more. Collective.
  [[nodiscard]] virtual std::optional<int> greatest_within(int mine, double limit) = 0;
};

}  // namespace dit
