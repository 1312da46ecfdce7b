// A user's program in C++: asks who holds which tokens and heads, and sees the words of an error.
#include <dit/dit.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

namespace {

struct FreeLayout {
  void operator()(dit_layout* layout) const { dit_layout_free(&layout); }
};

std::unique_ptr<dit_layout, FreeLayout> layout_on(int ranks) {
  dit_attention_shape shape{};
  shape.struct_size = sizeof shape;
  shape.batch = 1;
  shape.image_tokens = 100;
  shape.heads = shape.kv_heads = 7;
  shape.head_dim = 16;
  dit_layout* layout = nullptr;
  dit_layout_create(&shape, ranks, &layout);
  return std::unique_ptr<dit_layout, FreeLayout>(layout);
}

bool parts_add_up() {
  const auto layout = layout_on(3);
  std::int64_t tokens = 0, heads = 0;
  for (int rank = 0; rank < 3; ++rank) {
    dit_rank_part part{};
    part.struct_size = sizeof part;
    if (dit_layout_part(layout.get(), rank, 0, 1, &part) != DIT_OK) return false;
    tokens += part.image_tokens.end - part.image_tokens.begin;
    heads += part.heads.end - part.heads.begin;
  }
  return tokens == 100 && heads == 7;
}

bool error_has_words() {
  return layout_on(-1) == nullptr && std::strstr(dit_last_error(), "-1") != nullptr;
}

}  // namespace

int main() {
  const bool right = parts_add_up();
  const bool told = error_has_words();
  if (!right) std::puts("wrong parts");
  if (!told) std::puts("no words of an error");
  return right && told ? 0 : 1;
}
