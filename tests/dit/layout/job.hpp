/// @file
/// All ranks of an exchange in one place: tensors whose elements say where they come from, and what must
/// arrive.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layout/layout.hpp"
#include "wire/pack.hpp"

namespace dit::test {

using Element = std::int32_t;
using Tensor = std::vector<Element>;
constexpr Element kUntouched = -1;

/// An element's number: unique in a joint [batch, tokens, heads, head_dim] tensor.
inline Element tag(const AttentionShape& s, std::int64_t heads, std::int64_t sample, std::int64_t token,
                   std::int64_t head, std::int64_t dim) {
  const std::int64_t tokens = s.text_tokens + s.image_tokens;
  return static_cast<Element>(((sample * tokens + token) * heads + head) * s.head_dim + dim);
}

/// [batch, tokens, heads, head_dim] of the joint tokens and heads listed, with their numbers.
inline Tensor tagged(const AttentionShape& s, std::int64_t all_heads, const std::vector<std::int64_t>& tokens,
                     Range heads) {
  Tensor tensor;
  tensor.reserve(static_cast<std::size_t>(s.batch * heads.size() * s.head_dim) * tokens.size());
  for (std::int64_t sample = 0; sample < s.batch; ++sample) {
    for (const std::int64_t token : tokens) {
      for (std::int64_t head = heads.begin; head < heads.end; ++head) {
        for (std::int64_t dim = 0; dim < s.head_dim; ++dim) {
          tensor.push_back(tag(s, all_heads, sample, token, head, dim));
        }
      }
    }
  }
  return tensor;
}

/// Joint numbers of the tokens in a rank's sequence layout, from first principles.
inline std::vector<std::int64_t> sequence_tokens(const UlyssesLayout& layout, int rank) {
  const AttentionShape& s = layout.shape();
  std::vector<std::int64_t> text, image;
  for (std::int64_t t = layout.text_tokens(rank).begin; t < layout.text_tokens(rank).end; ++t) {
    text.push_back(s.order == JointOrder::text_image ? t : s.image_tokens + t);
  }
  for (std::int64_t t = layout.image_tokens(rank).begin; t < layout.image_tokens(rank).end; ++t) {
    image.push_back(s.order == JointOrder::text_image ? s.text_tokens + t : t);
  }
  std::vector<std::int64_t>& first = s.order == JointOrder::text_image ? text : image;
  const std::vector<std::int64_t>& second = s.order == JointOrder::text_image ? image : text;
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline std::vector<std::int64_t> numbers(Range range) {
  std::vector<std::int64_t> list;
  for (std::int64_t i = range.begin; i < range.end; ++i) list.push_back(i);
  return list;
}

/// The exchange of all ranks with pack and unpack; adds to `received` how many elements each got. Returns
/// what went wrong, or "".
inline std::string exchange(const std::vector<ExchangeLayout>& layouts, const std::vector<Tensor>& source,
                            std::vector<Tensor>& target, std::vector<std::size_t>& received) {
  const std::size_t ranks = layouts.size();
  std::vector<Tensor> sent(ranks);
  std::vector<std::vector<dit_block>> at(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (layouts[r].send.size() != ranks || layouts[r].recv.size() != ranks) return "no block for each peer";
    at[r] = packed_blocks(layouts[r].send, sizeof(Element));
    sent[r].assign(packed_bytes(layouts[r].send, sizeof(Element)) / sizeof(Element), kUntouched);
    pack(layouts[r].send, sizeof(Element), std::as_bytes(std::span(source[r])),
         std::as_writable_bytes(std::span(sent[r])));
  }
  Tensor arrived;
  for (std::size_t r = 0; r < ranks; ++r) {
    arrived.clear();
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      const PeerBlock& from = layouts[peer].send[r];
      const PeerBlock& to = layouts[r].recv[peer];
      if (from.rows() != to.rows() || from.row_elements != to.row_elements) {
        return "rank " + std::to_string(r) + " expects other sizes than rank " + std::to_string(peer) +
               " sends";
      }
      const auto begin =
          sent[peer].begin() + static_cast<std::ptrdiff_t>(at[peer][r].offset / sizeof(Element));
      arrived.insert(arrived.end(), begin, begin + static_cast<std::ptrdiff_t>(from.elements()));
    }
    received[r] += arrived.size();
    unpack(layouts[r].recv, sizeof(Element), std::as_bytes(std::span(arrived)),
           std::as_writable_bytes(std::span(target[r])));
  }
  return "";
}

}  // namespace dit::test
