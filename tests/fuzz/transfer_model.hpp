/// What a transfer of libdit's C interface must move where, from the layout's parts alone.
#pragma once

#include <dit/dit.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz.hpp"

namespace fuzz {

inline constexpr std::uint8_t kUntouched = 0xEE;

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

/// What a head's number of a token is, wherever it lies.
inline std::uint8_t content(std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t byte,
                            int round) {
  return static_cast<std::uint8_t>(batch * 101 + token * 31 + head * 7 + byte * 3 + round * 13);
}

struct Case {
  int ranks = 1;
  int per_node = 0;
  dit_attention_shape shape{};
};

/// One transfer of a rank, and what the model knows of it.
struct Way {
  dit_transfer* transfer = nullptr;
  int kind = 0, group = 0, groups = 1;
  std::size_t element = 1;
  std::vector<std::uint8_t> source, target;
  bool under_way = false, started = false;
  int round = 0;
};

/// Of one rank. Layout and case outlive it.
class TransferModel {
 public:
  TransferModel(const Case& of, const dit_layout* layout, int rank)
      : case_(of), layout_(layout), rank_(rank) {}

  /// The source's numbers of the way's round.
  void fill(Way& way) const {
    std::vector<std::int64_t> tokens[2], heads_of[2];
    sides(way, tokens, heads_of);
    const auto row = static_cast<std::size_t>(case_.shape.head_dim) * way.element;
    require(way.source.size() ==
                static_cast<std::size_t>(case_.shape.batch) * tokens[0].size() * heads_of[0].size() * row,
            "the source has the layout's bytes");
    walk(tokens[0], heads_of[0],
         [&](std::size_t place, std::int64_t batch, std::int64_t token, std::int64_t head) {
           for (std::size_t i = 0; i < row; ++i)
             way.source[place * row + i] =
                 content(batch, token, head, static_cast<std::int64_t>(i), way.round);
         });
  }

  /// Ends the program where the target is not what this round sent.
  void check(const Way& way) const {
    std::vector<std::int64_t> tokens[2], heads_of[2];
    sides(way, tokens, heads_of);
    const auto row = static_cast<std::size_t>(case_.shape.head_dim) * way.element;
    require(way.target.size() ==
                static_cast<std::size_t>(case_.shape.batch) * tokens[1].size() * heads_of[1].size() * row,
            "the target has the layout's bytes");
    walk(tokens[1], heads_of[1],
         [&](std::size_t place, std::int64_t batch, std::int64_t token, std::int64_t head) {
           const bool comes = way.kind != DIT_GATHER_OUTPUT || gathers(way, head);
           for (std::size_t i = 0; i < row; ++i) {
             const std::uint8_t sent = content(batch, token, head, static_cast<std::int64_t>(i), way.round);
             require(way.target[place * row + i] == (comes ? sent : kUntouched),
                     "every number arrives where it belongs");
           }
         });
  }

 private:
  [[nodiscard]] dit_rank_part part(const Way& way, int rank) const {
    dit_rank_part part{};
    part.struct_size = sizeof part;
    must_work(dit_layout_part(layout_, rank, way.group, way.groups, &part), "dit_layout_part");
    return part;
  }

  /// Whether a head comes in a gathered output: those of the group, of all ranks.
  [[nodiscard]] bool gathers(const Way& way, std::int64_t head) const {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      const dit_range heads = part(way, rank).heads;
      if (head >= heads.begin && head < heads.end) return true;
    }
    return false;
  }

  /// Tokens of the sequence layout, numbered within the joint sequence.
  [[nodiscard]] std::vector<std::int64_t> sequence_tokens(const dit_rank_part& part) const {
    const bool image_first = (case_.shape.flags & DIT_LAYOUT_IMAGE_FIRST) != 0;
    std::vector<std::int64_t> text, image;
    for (std::int64_t t = part.text_tokens.begin; t < part.text_tokens.end; ++t)
      text.push_back(t + (image_first ? case_.shape.image_tokens : 0));
    for (std::int64_t t = part.image_tokens.begin; t < part.image_tokens.end; ++t)
      image.push_back(t + (image_first ? 0 : case_.shape.text_tokens));
    std::vector<std::int64_t>& first = image_first ? image : text;
    const std::vector<std::int64_t>& then = image_first ? text : image;
    first.insert(first.end(), then.begin(), then.end());
    return first;
  }

  static std::vector<std::int64_t> all_of(dit_range range) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = range.begin; i < range.end; ++i) all.push_back(i);
    return all;
  }

  /// Calls `each` with a dense tensor's numbers: place, batch, token, head.
  template <typename Each>
  void walk(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& heads,
            Each each) const {
    std::size_t place = 0;
    for (std::int64_t batch = 0; batch < case_.shape.batch; ++batch)
      for (const std::int64_t token : tokens)
        for (const std::int64_t head : heads) each(place++, batch, token, head);
  }

  /// Which tokens and heads a side of a transfer holds.
  void sides(const Way& way, std::vector<std::int64_t>* tokens, std::vector<std::int64_t>* heads_of) const {
    const dit_rank_part own = part(way, rank_);
    const bool key = way.kind == DIT_SCATTER_KEY || way.kind == DIT_SCATTER_VALUE;
    const std::int64_t all_heads = key ? case_.shape.kv_heads : case_.shape.heads;
    const std::vector<std::int64_t> whole = all_of({0, case_.shape.text_tokens + case_.shape.image_tokens});
    const std::size_t sequence = way.kind == DIT_GATHER_OUTPUT ? 1 : 0;
    tokens[sequence] = sequence_tokens(own);
    heads_of[sequence] = all_of({0, all_heads});
    tokens[1 - sequence] = key ? whole : all_of(own.query_tokens);
    heads_of[1 - sequence] = all_of(key ? own.kv_heads : own.heads);
  }

  const Case& case_;
  const dit_layout* layout_;
  int rank_;
};

}  // namespace fuzz
