#include "c_interface/error.hpp"
#include "c_interface/handles.hpp"

using namespace dit::c_interface;

namespace {

constexpr unsigned kAllFlags =
    DIT_LAYOUT_IMAGE_FIRST | DIT_LAYOUT_TEXT_REPLICATED | DIT_LAYOUT_ONE_RANK_A_HEAD;

dit::AttentionShape to_shape(const dit_attention_shape& shape) {
  const bool image_first = (shape.flags & DIT_LAYOUT_IMAGE_FIRST) != 0;
  const bool replicated = (shape.flags & DIT_LAYOUT_TEXT_REPLICATED) != 0;
  return {shape.batch,
          shape.text_tokens,
          shape.image_tokens,
          shape.heads,
          shape.kv_heads,
          shape.head_dim,
          image_first ? dit::JointOrder::image_text : dit::JointOrder::text_image,
          replicated ? dit::TextPlacement::replicated : dit::TextPlacement::split};
}

dit_range to_range(const dit::Range& range) {
  return {range.begin, range.end};
}

}  // namespace

extern "C" {

dit_status dit_layout_create(const dit_attention_shape* shape, int ranks, dit_layout** layout) {
  return guarded(__func__, [&] {
    const dit_attention_shape given = read_struct(shape, "shape", "dit_attention_shape");
    dit_layout*& result = required(layout, "layout");
    if ((given.flags & ~kAllFlags) != 0) {
      throw std::invalid_argument("shape->flags = " + std::to_string(given.flags) +
                                  ": expected a sum of some of 1, 2, 4 (dit_layout_flags)");
    }
    const bool refuse = (given.flags & DIT_LAYOUT_ONE_RANK_A_HEAD) != 0;
    result = new dit_layout{dit::UlyssesLayout(
        to_shape(given), ranks, refuse ? dit::BeyondHeads::refuse : dit::BeyondHeads::gather_kv)};
  });
}

dit_status dit_layout_free(dit_layout** layout) {
  return guarded(__func__, [&] {
    delete required(layout, "layout");
    *layout = nullptr;
  });
}

dit_status dit_layout_part(const dit_layout* layout, int rank, int group, int groups, dit_rank_part* part) {
  return guarded(__func__, [&] {
    const dit::UlyssesLayout& from = required(layout, "layout").layout;
    dit_rank_part made{};
    made.text_tokens = to_range(from.text_tokens(rank));
    made.image_tokens = to_range(from.image_tokens(rank));
    made.sequence_rows = from.sequence_rows(rank);
    made.heads = to_range(from.heads(rank, group, groups));
    made.kv_heads = to_range(from.kv_heads(rank, group, groups));
    made.query_tokens = to_range(from.query_tokens(rank));
    write_struct(made, part, "part", "dit_rank_part");
  });
}

}  // extern "C"
