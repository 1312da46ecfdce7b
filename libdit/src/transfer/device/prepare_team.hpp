/// The rows of prepare.hpp, 16 bytes at a time: a team of `lanes` threads has a head's row, a lane the same
/// numbers of every head, so that what the heads of a token have in common (weights, mostly cosines and
/// sines) is read once. For heads of 32, 64 and 128 numbers. Pure, host and device; the bits are TokenRow's,
/// as squares are added in its order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transfer/device/prepare.hpp"

namespace dit {

/// Of a token, one after the other by one team. With more there are too few teams where four GPUs share
/// tokens.
inline constexpr int kHeadsOfUnit = 3;

/// How many lanes have a head's row, 0: such a job is not for teams (its shape or how it lies in memory).
[[nodiscard]] int team_lanes(const PrepareJob& job, std::size_t element_bytes);

/// One with Norm::token, which is of all heads together; else one for each kHeadsOfUnit heads.
DIT_HOST_DEVICE inline int units_of_token(const PrepareJob& job) {
  return job.norm == Norm::token ? 1 : (job.heads + kHeadsOfUnit - 1) / kHeadsOfUnit;
}

/// A lane's part of a unit.
/// Team: lane() of 0 to lanes - 1, and across(value, distance), the value of the lane at lane() ^ distance.
/// All lanes of a team make the same calls.
template <class Element, int lanes, class Team>
class TeamUnit {
 public:
  DIT_HOST_DEVICE TeamUnit(const PrepareJob& job, const Team& team, int unit)
      : job_(job), team_(team), at_(team.lane() * kNumbers) {
    const int units = units_of_token(job);
    const int token = unit / units;
    sample_ = token / job.rows;
    row_ = token - sample_ * job.rows;
    const bool whole = job.norm == Norm::token;
    head_begin_ = whole ? 0 : (unit - token * units) * kHeadsOfUnit;
    head_end_ = whole || head_begin_ + kHeadsOfUnit > job.heads ? job.heads : head_begin_ + kHeadsOfUnit;
    text_ = row_ >= job.text_begin && row_ < job.text_end;
    begin_ = static_cast<const Element*>(job.source) + sample_ * job.batch + row_ * job.row + at_;
  }

  DIT_HOST_DEVICE void run() const {
    if (job_.norm == Norm::none && job_.rope == Rope::none) {
      for_each_place([&](int, const Sixteen& x, Element* to) { *reinterpret_cast<Sixteen*>(to) = x; });
      return;
    }
    Numbers cosines = angles(job_.cosine, 0);
    Numbers sines = angles(job_.sine, 0);
    Numbers weight = weights(0);
    const float common = job_.norm == Norm::token ? scale_of_token() : 1.0F;
    for_each_place([&](int head, const Sixteen& from, Element* to) {
      if (job_.angle_head != 0) {
        cosines = angles(job_.cosine, head);
        sines = angles(job_.sine, head);
      }
      Numbers x = numbers(from);
      if (job_.norm == Norm::token) weight = weights(head);
      if (job_.norm != Norm::none) normalize(x, job_.norm == Norm::head ? scale_of_head(x) : common, weight);
      store(to, rotated(x, cosines, sines));
    });
  }

 private:
  static constexpr int kNumbers = static_cast<int>(16 / sizeof(Element));
  static constexpr int kGroups = kNumbers / kGroup;
  static constexpr int kHeadGroups =
      lanes * kGroups;  ///< of a head; lane l has l * kGroups and the next ones
  static constexpr int kRounds = kLanes / kHeadGroups;  ///< heads after which the order's lanes begin anew
  static_assert(kRounds >= 1);

  struct alignas(16) Sixteen {
    Element at[kNumbers];
  };
  struct Numbers {
    float at[kNumbers];
  };
  template <int count>
  struct alignas(count < 4 ? 8 : 16) Angles {
    float at[count];
  };

  [[nodiscard]] DIT_HOST_DEVICE Sixteen raw(int head) const {
    return *reinterpret_cast<const Sixteen*>(begin_ + head * job_.head);
  }
  [[nodiscard]] static DIT_HOST_DEVICE Numbers numbers(const Sixteen& from) {
    Numbers all;
    for (int i = 0; i < kNumbers; ++i) all.at[i] = to_float(from.at[i]);
    return all;
  }
  static DIT_HOST_DEVICE void store(Element* to, const Numbers& from) {
    Sixteen all;
    for (int i = 0; i < kNumbers; ++i) all.at[i] = Rounded<Element>::of(from.at[i]);
    *reinterpret_cast<Sixteen*>(to) = all;
  }

  /// Where this unit's heads go, one after the other; a head that several ranks want comes several times. A
  /// head is read before the one before it is stored.
  template <class Body>
  DIT_HOST_DEVICE void for_each_place(const Body& body) const {
    for (int i = 0; i < job_.parts; ++i) {
      const PreparePart& part = job_.part[i];
      if (row_ < part.row_begin || row_ >= part.row_end) continue;
      const int begin = head_begin_ > part.head_begin ? head_begin_ : part.head_begin;
      const int end = head_end_ < part.head_end ? head_end_ : part.head_end;
      Element* to = static_cast<Element*>(part.target) + sample_ * part.batch +
                    (row_ - part.row_begin) * part.row + (begin - part.head_begin) * part.head + at_;
      if (begin >= end) continue;
      Sixteen next = raw(begin);
      for (int head = begin; head < end; ++head, to += part.head) {
        const Sixteen now = next;
        if (head + 1 < end) next = raw(head + 1);
        body(head, now, to);
      }
    }
  }

  [[nodiscard]] DIT_HOST_DEVICE Numbers weights(int head) const {
    Numbers all;
    const void* const weight = text_ ? job_.text_weight : job_.weight;
    const int first = (job_.norm == Norm::token ? head * job_.head_dim : 0) + at_;
    for (int i = 0; i < kNumbers; i += kGroup) {
      Four four{{1, 1, 1, 1}};
      if (job_.norm != Norm::none && weight != nullptr)
        four = job_.weights_fp32
                   ? load_four<float, true>(static_cast<const float*>(weight) + first + i, kGroup)
                   : load_four<Element, true>(static_cast<const Element*>(weight) + first + i, kGroup);
      for (int n = 0; n < kGroup; ++n) all.at[i + n] = four.at[n];
    }
    return all;
  }

  /// Of a table, what a lane's numbers are multiplied by: one for each, or for each pair of them.
  [[nodiscard]] DIT_HOST_DEVICE Numbers angles(const float* table, int head) const {
    Numbers all{};
    if (job_.rope == Rope::none) return all;
    const std::int64_t token = row_ + (text_ ? job_.text_token : job_.image_token);
    const float* const from =
        table + sample_ * job_.angle_batch + token * job_.angle_token + head * job_.angle_head;
    if (job_.rope == Rope::interleaved) {
      const Angles<kNumbers / 2> some = *reinterpret_cast<const Angles<kNumbers / 2>*>(from + at_ / 2);
      for (int i = 0; i < kNumbers; ++i) all.at[i] = some.at[i / 2];
    } else {
      const Angles<kNumbers> some =
          *reinterpret_cast<const Angles<kNumbers>*>(from + at_ % (job_.head_dim / 2));
      for (int i = 0; i < kNumbers; ++i) all.at[i] = some.at[i];
    }
    return all;
  }

  /// In the order of prepare.hpp: of the order's lanes at distances of kHeadGroups / 2 to 1.
  [[nodiscard]] DIT_HOST_DEVICE float over_lanes(float (&squares)[kGroups]) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      for (int k = 0; k < kGroups; ++k) squares[k] = sum(squares[k], team_.across(squares[k], distance));
    for (int distance = kGroups / 2; distance > 0; distance /= 2)
      for (int k = 0; k < distance; ++k) squares[k] = sum(squares[k], squares[k + distance]);
    return squares[0];
  }
  static DIT_HOST_DEVICE void add_squares(float (&squares)[kGroups], const Numbers& x) {
    for (int k = 0; k < kGroups; ++k)
      for (int i = 0; i < kGroup; ++i) {
        const float number = x.at[k * kGroup + i];
        squares[k] = sum(squares[k], product(number, number));
      }
  }

  [[nodiscard]] DIT_HOST_DEVICE float scale_of_head(const Numbers& x) const {
    float squares[kGroups] = {};
    add_squares(squares, x);
    return scale_of_mean(product(over_lanes(squares), 1.0F / (lanes * kNumbers)), job_.epsilon);
  }

  [[nodiscard]] DIT_HOST_DEVICE float scale_of_token() const {
    float squares[kRounds][kGroups] = {};
    for (int head = 0; head < job_.heads; head += kRounds)
      for (int round = 0; round < kRounds; ++round)
        if (head + round < job_.heads) add_squares(squares[round], numbers(raw(head + round)));
    for (int half = kRounds / 2; half > 0; half /= 2)
      for (int round = 0; round < half; ++round)
        for (int k = 0; k < kGroups; ++k)
          squares[round][k] = sum(squares[round][k], squares[round + half][k]);
    return scale_of(over_lanes(squares[0]), job_.heads * job_.head_dim, job_.epsilon);
  }

  DIT_HOST_DEVICE void normalize(Numbers& x, float scale, const Numbers& weight) const {
    for (int i = 0; i < kNumbers; ++i) x.at[i] = product(product(x.at[i], scale), weight.at[i]);
    if (!job_.round_norm) return;
    for (int i = 0; i < kNumbers; ++i) x.at[i] = to_float(Rounded<Element>::of(x.at[i]));
  }

  [[nodiscard]] DIT_HOST_DEVICE Numbers rotated(const Numbers& x, const Numbers& c, const Numbers& s) const {
    if (job_.rope == Rope::none) return x;
    Numbers out;
    if (job_.rope == Rope::interleaved) {
      for (int i = 0; i < kNumbers; i += 2) {
        out.at[i] = sum(product(x.at[i], c.at[i]), product(-x.at[i + 1], s.at[i]));
        out.at[i + 1] = sum(product(x.at[i + 1], c.at[i]), product(x.at[i], s.at[i]));
      }
      return out;
    }
    const bool low = team_.lane() < lanes / 2;
    for (int i = 0; i < kNumbers; ++i) {
      const float other = team_.across(x.at[i], lanes / 2);
      out.at[i] = sum(product(x.at[i], c.at[i]), product(low ? -other : other, s.at[i]));
    }
    return out;
  }

  const PrepareJob& job_;
  const Team& team_;
  int at_;  ///< a lane's first number of a head
  int sample_, row_;
  int head_begin_, head_end_;
  bool text_;
  const Element* begin_;
};

}  // namespace dit
