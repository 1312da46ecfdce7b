/// RMSNorm and rotary position embedding of a head's row on its way to the ranks that attend for it. Pure,
/// host and device: the host's path and the kernel are these functions, so that their bits are equal.
///
/// Rounding: everything in fp32, each product and each sum rounded by itself (no fused multiply-add), the
/// root and the quotient as IEEE 754 has them, and once at the end to the element. As torch's rms_norm, and
/// diffusers' apply_rotary_emb, compute; those two one after the other also round between them (round_norm),
/// and sum squares in another order.
///
/// Order of the sum of squares: numbers go in groups of four, within a head; group g belongs to lane g % 32;
/// a lane sums its squares in ascending order; then lanes are added in pairs at distances of 16, 8, 4, 2, 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transfer/device/numbers.hpp"

namespace dit {

inline constexpr int kLanes = 32;
inline constexpr int kMostParts = 32;  ///< 16 ranks, text and image

enum class Norm : int { none, head, token };
enum class Rope : int { none, interleaved, halves };

/// Rows and heads that go to one place.
struct PreparePart {
  void* target;                   ///< of the first row's first head
  std::int64_t batch, row, head;  ///< strides there, in elements
  int row_begin, row_end;         ///< in a sample of the source
  int head_begin, head_end;
};

/// One tensor of a launch: an argument of fixed size, which a CUDA graph records.
struct PrepareJob {
  const void* source;
  std::int64_t batch, row, head;  ///< strides, in elements
  int samples, rows, heads, head_dim;
  Norm norm;
  Rope rope;
  bool round_norm;    ///< to the element, before RoPE
  bool weights_fp32;  ///< else of the element's type
  float epsilon;
  const void* weight;       ///< [head_dim], or with Norm::token [heads * head_dim]; null: ones
  const void* text_weight;  ///< of text rows
  const float* cosine;      ///< head_dim / 2 numbers for each token, at these strides
  const float* sine;
  std::int64_t angle_batch, angle_token, angle_head;
  int text_begin, text_end;              ///< rows of a sample that are text
  std::int64_t text_token, image_token;  ///< what to add to a row for its token in the tables
  int parts;
  PreparePart part[kMostParts];
};

DIT_HOST_DEVICE constexpr int groups_of(int head_dim) {
  return (head_dim + kGroup - 1) / kGroup;
}

/// One token of the source.
template <class Element, bool wide>
class TokenRow {
 public:
  DIT_HOST_DEVICE TokenRow(const PrepareJob& job, int sample, int row)
      : job_(job),
        sample_(sample),
        row_(row),
        begin_(static_cast<const Element*>(job.source) + sample * job.batch + row * job.row) {}

  /// A lane's sum of squares, of one head or (head < 0) of all.
  [[nodiscard]] DIT_HOST_DEVICE float squares(int head, int lane) const {
    const int groups = groups_of(job_.head_dim);
    const int end = head < 0 ? job_.heads * groups : groups;
    float total = 0;
    for (int group = lane; group < end; group += kLanes) {
      const int of = head < 0 ? group / groups : head;
      const Four four = raw(of, (head < 0 ? group % groups : group) * kGroup);
      for (int i = 0; i < kGroup; ++i) total = sum(total, product(four.at[i], four.at[i]));
    }
    return total;
  }

  /// A lane's numbers of one head, to all that want them. `scale`: of the norm.
  DIT_HOST_DEVICE void emit(int head, float scale, int lane) const {
    for (int at = lane * kGroup; at < job_.head_dim; at += kLanes * kGroup) {
      if (job_.norm == Norm::none && job_.rope == Rope::none) {
        copy(head, at);
      } else {
        store(head, at, rotated(head, at, scale));
      }
    }
  }

 private:
  [[nodiscard]] DIT_HOST_DEVICE int count(int at) const {
    return job_.head_dim - at < kGroup ? job_.head_dim - at : kGroup;
  }
  [[nodiscard]] DIT_HOST_DEVICE Four raw(int head, int at) const {
    return load_four<Element, wide>(begin_ + head * job_.head + at, count(at));
  }
  [[nodiscard]] DIT_HOST_DEVICE bool is_text() const {
    return row_ >= job_.text_begin && row_ < job_.text_end;
  }

  [[nodiscard]] DIT_HOST_DEVICE Four weights(int head, int at) const {
    const void* const weight = is_text() ? job_.text_weight : job_.weight;
    if (weight == nullptr) return {{1, 1, 1, 1}};
    const int first = (job_.norm == Norm::token ? head * job_.head_dim : 0) + at;
    return job_.weights_fp32
               ? load_four<float, wide>(static_cast<const float*>(weight) + first, count(at))
               : load_four<Element, wide>(static_cast<const Element*>(weight) + first, count(at));
  }

  [[nodiscard]] DIT_HOST_DEVICE Four normed(int head, int at, float scale) const {
    Four four = raw(head, at);
    if (job_.norm == Norm::none) return four;
    const Four weight = weights(head, at);
    for (int i = 0; i < kGroup; ++i) {
      four.at[i] = product(product(four.at[i], scale), weight.at[i]);
      if (job_.round_norm) four.at[i] = to_float(Rounded<Element>::of(four.at[i]));
    }
    return four;
  }

  [[nodiscard]] DIT_HOST_DEVICE Four rotated(int head, int at, float scale) const {
    const Four own = normed(head, at, scale);
    if (job_.rope == Rope::none) return own;
    const std::int64_t token = row_ + (is_text() ? job_.text_token : job_.image_token);
    const std::int64_t angles =
        sample_ * job_.angle_batch + token * job_.angle_token + head * job_.angle_head;
    const float* const cosine = job_.cosine + angles;
    const float* const sine = job_.sine + angles;
    Four out{};
    if (job_.rope == Rope::interleaved) {
      for (int i = 0; i < kGroup; i += 2) {
        if (at + i >= job_.head_dim) break;
        const float c = cosine[(at + i) / 2];
        const float s = sine[(at + i) / 2];
        out.at[i] = sum(product(own.at[i], c), product(-own.at[i + 1], s));
        out.at[i + 1] = sum(product(own.at[i + 1], c), product(own.at[i], s));
      }
      return out;
    }
    return rotated_halves(head, at, scale, own, cosine, sine);
  }

  /// Number i goes with number i + head_dim / 2.
  [[nodiscard]] DIT_HOST_DEVICE Four rotated_halves(int head, int at, float scale, const Four& own,
                                                    const float* cosine, const float* sine) const {
    const int half = job_.head_dim / 2;
    Four out{};
    if constexpr (wide) {
      const bool low = at < half;
      const Four other = normed(head, low ? at + half : at - half, scale);
      for (int i = 0; i < kGroup; ++i) {
        const int pair = (low ? at : at - half) + i;
        out.at[i] =
            sum(product(own.at[i], cosine[pair]), product(low ? -other.at[i] : other.at[i], sine[pair]));
      }
    } else {
      for (int i = 0; i < count(at); ++i) {
        const bool low = at + i < half;
        const int partner = low ? at + i + half : at + i - half;
        const int begin = partner / kGroup * kGroup;
        const float other = normed(head, begin, scale).at[partner - begin];
        const int pair = low ? at + i : at + i - half;
        out.at[i] = sum(product(own.at[i], cosine[pair]), product(low ? -other : other, sine[pair]));
      }
    }
    return out;
  }

  [[nodiscard]] DIT_HOST_DEVICE bool wants(const PreparePart& part, int head) const {
    return row_ >= part.row_begin && row_ < part.row_end && head >= part.head_begin && head < part.head_end;
  }
  [[nodiscard]] DIT_HOST_DEVICE Element* place(const PreparePart& part, int head, int at) const {
    return static_cast<Element*>(part.target) + sample_ * part.batch + (row_ - part.row_begin) * part.row +
           (head - part.head_begin) * part.head + at;
  }
  DIT_HOST_DEVICE void store(int head, int at, const Four& four) const {
    for (int i = 0; i < job_.parts; ++i)
      if (wants(job_.part[i], head))
        store_four<Element, wide>(place(job_.part[i], head, at), four, count(at));
  }
  /// Bits as they are.
  DIT_HOST_DEVICE void copy(int head, int at) const {
    struct alignas(sizeof(Element) * kGroup) Wide {
      Element at[kGroup];
    };
    const Element* const from = begin_ + head * job_.head + at;
    if constexpr (wide) {
      const Wide all = *reinterpret_cast<const Wide*>(from);
      for (int i = 0; i < job_.parts; ++i)
        if (wants(job_.part[i], head)) *reinterpret_cast<Wide*>(place(job_.part[i], head, at)) = all;
    } else {
      for (int i = 0; i < job_.parts; ++i)
        if (wants(job_.part[i], head))
          for (int n = 0; n < count(at); ++n) place(job_.part[i], head, at)[n] = from[n];
    }
  }

  const PrepareJob& job_;
  int sample_;
  int row_;
  const Element* begin_;
};

/// Whether all of a job's rows can be read and written four numbers at a time.
[[nodiscard]] bool is_wide(const PrepareJob& job, std::size_t element_bytes);

/// A whole job on the host.
void prepare_on_host(const PrepareJob& job, int element_type);

}  // namespace dit
