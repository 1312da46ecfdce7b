/// @file
/// In which order the calls on a communicator begin, and which message tags each has. Pure: no MPI. Alike on
/// all ranks, as these see the same sequence of collective calls.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace tapa {

/// Message tags of one operation: tags first .. first + count - 1 of the private communicator.
struct TagWindow {
  int first = 0;
  int count = 0;
};

/// What the tags of a window are for.
namespace window_tags {
inline constexpr int kCheck = 0;
inline constexpr int kVerdict = 1;
inline constexpr int kCounts = 2;
inline constexpr int kSums = 3;
inline constexpr int kArrivals = 4;
inline constexpr int kAgree = 5;
inline constexpr int kPlan = 6;  ///< the first of the plan's channels
}  // namespace window_tags

/// Half of the tags go to blocking and nonblocking operations, in turn; the other half to persistent ones as
/// long as they live: which is free is agreed, as ranks free requests when they like. Not thread-safe.
class CallOrder {
 public:
  /// Tags `first` .. `first` + `tags` - 1, kLeastTags at least. `wanted`: of an operation, if there are.
  explicit CallOrder(int first = 0, int tags = kLeastTags, int wanted = 0)
      : first_(first),
        count_(tags_of(tags, wanted)),
        half_(static_cast<std::size_t>((tags - kSetAside) / count_ / 2)),
        used_(2 * half_) {}
  static constexpr int kLeastTags = 1 << 13;

  /// The first few tags are for what is agreed from time to time, one at a time.
  static constexpr int kSetAside = 8;
  [[nodiscard]] int free_tag() const { return first_; }        ///< which windows are free
  [[nodiscard]] int mean_tag() const { return first_ + 1; }    ///< the mean block
  [[nodiscard]] int sparse_tag() const { return first_ + 2; }  ///< and those behind it: sparse exchanges
  [[nodiscard]] int edges_tag() const { return first_ + kSetAside - 1; }  ///< what is known of edges

  /// Operations that are being prepared, in the order of calls. Only the first may agree with other ranks.
  void enqueue(const void* operation) { queue_.push_back(operation); }
  void leave(const void* operation) { std::erase(queue_, operation); }
  [[nodiscard]] const void* first() const { return queue_.empty() ? nullptr : queue_.front(); }
  [[nodiscard]] bool idle() const { return queue_.empty(); }

  /// Tags for the next operation that is not persistent; nothing until who had them before has ended here.
  [[nodiscard]] std::optional<TagWindow> take_window() {
    const std::size_t index = next_ % half_;
    if (used_[index]) return std::nullopt;
    used_[index] = true;
    ++next_;
    return window(index);
  }
  /// A call that sends no messages here may send some elsewhere: it counts.
  void pass_window() { ++next_; }
  /// Ends the use of tags; an empty window is passed over.
  void give_back(TagWindow window) {
    if (window.count == 0) return;
    used_[static_cast<std::size_t>((window.first - first_ - kSetAside) / window.count)] = false;
  }

  /// A persistent operation takes the first window that is free on all ranks, of blocks of 64 from
  /// start_block() on: its bit is set in all their free_windows().
  static constexpr std::size_t kBlock = 64;
  [[nodiscard]] std::size_t blocks() const { return (half_ + kBlock - 1) / kBlock; }
  [[nodiscard]] std::size_t start_block() const { return block_; }

  [[nodiscard]] std::uint64_t free_windows(std::size_t block) const {
    std::uint64_t free = 0;
    for (std::size_t i = 0; i < kBlock && block * kBlock + i < half_; ++i) {
      if (!used_[half_ + block * kBlock + i]) free |= std::uint64_t{1} << i;
    }
    return free;
  }
  /// Takes the lowest set bit of `free`, what all ranks have free in that block. Precondition: free != 0.
  [[nodiscard]] TagWindow take_persistent(std::size_t block, std::uint64_t free) {
    block_ = block;
    const std::size_t index = half_ + block * kBlock + static_cast<std::size_t>(std::countr_zero(free));
    used_[index] = true;
    return window(index);
  }

 private:
  static constexpr int kLeastWindows = 64;
  static constexpr int kManyWindows = 1024;

  /// Of a window.
  static int tags_of(int tags, int wanted) {
    const int most = (tags - kSetAside) / kLeastWindows;
    return std::min(most, std::max(wanted, tags / kManyWindows));
  }
  [[nodiscard]] TagWindow window(std::size_t index) const {
    return {first_ + kSetAside + static_cast<int>(index) * count_, count_};
  }

  int first_;
  int count_;         // tags of a window
  std::size_t half_;  // windows of each half
  std::vector<bool> used_;
  std::uint64_t next_ = 0;
  std::size_t block_ = 0;  // in which the last persistent operation found its window
  std::deque<const void*> queue_;
};

}  // namespace tapa
