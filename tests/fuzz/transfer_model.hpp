/// What a transfer of libdit's C interface must move where, from the layout's parts alone.
#pragma once

#include <dit/dit.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "c_calls.hpp"
#include "wire_choice.hpp"

namespace fuzz {

inline constexpr std::uint8_t kUntouched = 0xEE;

/// A tensor's memory, with bytes around it that nobody may write.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes) : all_(bytes + 2 * kGuard, kGuardByte) {}
  [[nodiscard]] std::size_t size() const { return all_.size() - 2 * kGuard; }
  [[nodiscard]] std::uint8_t* data() { return all_.data() + kGuard; }
  [[nodiscard]] const std::uint8_t* data() const { return all_.data() + kGuard; }
  void fill(std::uint8_t byte) { std::fill(all_.begin() + kGuard, all_.end() - kGuard, byte); }
  void require_guards() const {
    for (std::size_t i = 0; i < kGuard; ++i)
      require(all_[i] == kGuardByte && all_[all_.size() - 1 - i] == kGuardByte,
              "nothing around a tensor is written");
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 32;
  static constexpr std::uint8_t kGuardByte = 0xA7;
  std::vector<std::uint8_t> all_ = std::vector<std::uint8_t>(2 * kGuard, kGuardByte);
};

/// One transfer of a rank, and what the model knows of it.
struct Way {
  dit_transfer* transfer = nullptr;
  int number = 0;  ///< the same on all ranks
  int kind = 0, group = 0, groups = 1;
  std::size_t element = 1;
  Buffer source, target;
  bool under_way = false, started = false;
  int round = 0;
  std::shared_ptr<WireState> wire;  ///< null: the tensor travels as it is
  bool late = false;                ///< what came last was sent late, with the preset "displaced":
  int before = 0;                   ///< it is of this round
  std::map<std::pair<int, int>, int> travelled;  ///< the last round of each place that was sent at all
  std::pair<int, int> place;                     ///< its layer and branch
  std::map<std::pair<int, int>, std::vector<int>> rounds;  ///< started there
};

/// A start of the preset "displaced": K and V of the fifth step and later ones travel for the next step,
/// those of the last step not at all; what comes for the first time in a layer and branch comes at once.
void note_late(Way& way, int step);

/// Of one rank. Layout and case outlive it.
class TransferModel {
 public:
  TransferModel(const Case& of, const dit_layout* layout, int rank, Board* board = nullptr)
      : case_(of), layout_(layout), rank_(rank), board_(board) {}

  /// The source's numbers of the way's round.
  void fill(Way& way) const;
  /// Ends the program where the target is not what this round sent.
  void check(const Way& way) const;
  /// [batch, rows, heads, head_dim] of source and target.
  void check_shapes(const Way& way, const std::int64_t* source, const std::int64_t* target) const;
  /// Bytes that this rank sends to a peer when it starts.
  [[nodiscard]] std::uint64_t bytes_to(const Way& way, int peer) const;

 private:
  struct Side {
    std::vector<std::int64_t> tokens, heads;
  };
  /// A rank's part of a way, and its tokens in the sequence layout, numbered within the joint sequence.
  struct Part {
    dit_rank_part of{};
    std::vector<std::int64_t> tokens;
  };
  [[nodiscard]] Part part(const Way& way, int rank) const;
  [[nodiscard]] std::vector<Part> parts(const Way& way) const;
  [[nodiscard]] std::pair<Side, Side> sides(const Way& way, const Part& own) const;
  [[nodiscard]] int sender_of(const Way& way, const std::vector<Part>& parts, int receiver,
                              std::int64_t token, std::int64_t head) const;
  void check_row(const Way& way, const dit_rank_part& own, int sender, const std::int64_t* where,
                 const std::uint8_t* came) const;
  [[nodiscard]] bool is_from_before(const Way& way, const std::int64_t* where,
                                    const std::uint8_t* came) const;
  void check_numbers(const Way& way, const std::int64_t* where, const std::uint8_t* came) const;
  [[nodiscard]] std::vector<std::uint8_t> content(const Way& way, const std::int64_t* where, int round) const;
  [[nodiscard]] std::size_t row_bytes(const Way& way) const {
    return static_cast<std::size_t>(case_.shape.head_dim) * way.element;
  }

  const Case& case_;
  const dit_layout* layout_;
  int rank_;
  Board* board_;
};

}  // namespace fuzz
