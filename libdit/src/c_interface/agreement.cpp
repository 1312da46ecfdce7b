#include "c_interface/agreement.hpp"

#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace dit::c_interface {

void agree(ExchangeContext& context, const std::function<std::vector<NamedNumber>()>& numbers) {
  std::vector<NamedNumber> own_numbers;
  std::exception_ptr own;
  std::string words;
  try {
    context.require_good();
    own_numbers = numbers();
  } catch (const std::exception& error) {
    own = std::current_exception();
    words = error.what();
  }
  const std::string all = context.agree_on_error(words);
  if (own != nullptr) {
    std::rethrow_exception(own);
  }
  if (!all.empty()) {
    throw std::invalid_argument(all);
  }
  if (own_numbers.empty()) {
    return;
  }
  std::vector<std::int64_t> mine;
  for (const NamedNumber& number : own_numbers) {
    mine.push_back(number.second);
  }
  const std::vector<std::byte> gathered = context.all_gather(std::as_bytes(std::span(mine)));
  std::vector<std::int64_t> first(mine.size()), other(mine.size());
  std::memcpy(first.data(), gathered.data(), first.size() * sizeof(std::int64_t));
  for (int rank = 1; rank < context.size(); ++rank) {
    std::memcpy(other.data(),
                gathered.data() + static_cast<std::size_t>(rank) * mine.size() * sizeof(std::int64_t),
                other.size() * sizeof(std::int64_t));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (other[i] != first[i]) {
        throw std::invalid_argument(std::string(own_numbers[i].first) + " = " + std::to_string(other[i]) +
                                    " on rank " + std::to_string(rank) + ", " + std::to_string(first[i]) +
                                    " on rank 0: expected the same on all ranks");
      }
    }
  }
}

std::vector<NamedNumber> shape_numbers(const UlyssesLayout& layout) {
  const AttentionShape& shape = layout.shape();
  return {{"shape->batch", shape.batch},
          {"shape->text_tokens", shape.text_tokens},
          {"shape->image_tokens", shape.image_tokens},
          {"shape->heads", shape.heads},
          {"shape->kv_heads", shape.kv_heads},
          {"shape->head_dim", shape.head_dim},
          {"DIT_LAYOUT_IMAGE_FIRST", shape.order == JointOrder::image_text ? 1 : 0},
          {"DIT_LAYOUT_TEXT_REPLICATED", shape.text == TextPlacement::replicated ? 1 : 0}};
}

std::int64_t number_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a, 64 bits
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  }
  return static_cast<std::int64_t>(hash);
}

}  // namespace dit::c_interface
