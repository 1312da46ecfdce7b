/// Calls of libdit's C interface that must work or must fail, and what the ranks of one input share.
#pragma once

#include <dit/dit.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fuzz.hpp"

namespace fuzz {

inline void require_status(bool expected, dit_status status, const char* call) {
  if ((status == DIT_OK) == expected) return;
  require(false,
          std::string(call) + (expected ? ": fails: " : ": must fail") + (expected ? dit_last_error() : ""));
}
inline void must_work(dit_status status, const char* call) {
  require_status(true, status, call);
}
inline void must_fail(dit_status status, const char* call) {
  require_status(false, status, call);
  require(*dit_last_error() != '\0', std::string(call) + ": an error has words");
}
/// With the status that dit.h names.
inline void must_fail_with(dit_status expected, dit_status status, const char* call) {
  must_fail(status, call);
  require(status == expected, std::string(call) + ": status " + std::to_string(status) + ", expected " +
                                  std::to_string(expected) + ": " + dit_last_error());
}

/// What several ranks must come to alike, by whichever of them comes first.
class Board {
 public:
  using Key = std::vector<std::int64_t>;
  void agree(const Key& key, const std::uint8_t* data, std::size_t size, const char* what) {
    const std::scoped_lock lock(mutex_);
    const std::string own(reinterpret_cast<const char*>(data), size);
    require(values_.try_emplace(key, own).first->second == own, what);
  }
  void agree(const Key& key, std::uint64_t number, const char* what) {
    std::uint8_t bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    agree(key, bytes, sizeof bytes, what);
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::string> values_;
};

/// First numbers of a board's keys.
enum class Topic : std::int64_t { block, start, guarded, memory, text };
inline Board::Key key_of(Topic topic, std::initializer_list<std::int64_t> rest) {
  Board::Key key{static_cast<std::int64_t>(topic)};
  key.insert(key.end(), rest);
  return key;
}

struct Case {
  int ranks = 1;
  int per_node = 0;
  dit_attention_shape shape{};
  [[nodiscard]] int node(int rank) const { return per_node > 0 ? rank / per_node : 0; }
  [[nodiscard]] int level_of(int one, int other) const { return node(one) == node(other) ? 0 : 1; }
  [[nodiscard]] int levels() const { return per_node > 0 ? 2 : 1; }
  /// The first level that leaves a node; as many as there are levels when none does.
  [[nodiscard]] int slow_level() const { return node(ranks - 1) > 0 ? 1 : levels(); }
};

/// A rank of an input; what it points to outlives all its steps.
struct Place {
  const Case& of;
  Board& board;
  int rank;
  dit_session* session;
  const dit_layout* layout;  ///< null: the shape makes none
};

}  // namespace fuzz
