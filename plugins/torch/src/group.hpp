/// Ranks that exchange with each other, by name.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calls.hpp"
#include "names.hpp"

namespace dit::operators {

inline constexpr std::size_t kMostLevels = 16;
/// By level, from fast to slow.
using LevelBytes = std::array<std::uint64_t, kMostLevels>;

class Group {
 public:
  /// A session of the caller's, which outlives it.
  Group(std::string name, dit_session& session);
  /// One of its own.
  Group(std::string name, SessionHandle session);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] dit_session& session() const { return session_; }
  [[nodiscard]] ExchangeContext& context() const;
  [[nodiscard]] int rank() const { return context().rank(); }
  [[nodiscard]] int size() const { return context().size(); }
  /// Throws std::invalid_argument on all ranks when one of them has words. Collective.
  void agree(const std::string& words) const;
  /// Closes a session of its own. Collective; afterwards only good for destruction. Throws ExchangeError.
  void close();
  /// What the session counted since the last call, for whoever sent it.
  [[nodiscard]] LevelBytes newly_sent();
  /// What `body` sends counts for nobody.
  void run_uncounted(const std::function<void()>& body);

  /// Exchanges of the group, in the order in which they were made.
  std::vector<std::string> exchanges;

 private:
  [[nodiscard]] LevelBytes totals() const;

  std::string name_;
  SessionHandle own_;
  dit_session& session_;
  LevelBytes counted_{};
};

/// Of this process; never destroyed, as closing is collective.
[[nodiscard]] Names<Group>& groups();

}  // namespace dit::operators
