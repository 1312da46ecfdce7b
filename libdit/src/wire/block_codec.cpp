#include "wire/block_codec.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "wire/v_major.hpp"

namespace dit {
namespace {

void grow_older(BlockMemory& memory) {
  for (std::uint16_t& age : memory.ages) {
    age = static_cast<std::uint16_t>(std::min<int>(age + 1, std::numeric_limits<std::uint16_t>::max()));
  }
}

void note_ages(BlockMemory& memory, std::span<const std::uint32_t> travelled) {
  grow_older(memory);
  for (const std::uint32_t row : travelled) {
    if (!memory.ages.empty()) {
      memory.ages[row] = 0;
    }
  }
}

void all_young(BlockMemory& memory) {
  std::fill(memory.ages.begin(), memory.ages.end(), std::uint16_t{0});
}

// Some rows of a reference side by side, and back.
class ReferenceRows {
 public:
  ReferenceRows(const WireReference& whole, std::span<const std::uint32_t> rows, std::size_t row)
      : whole_(whole),
        rows_(rows),
        row_(row),
        value_(take(whole.value)),
        digits_(take(whole.digits)),
        change_(take(whole.change)) {}
  [[nodiscard]] WireReference some() { return {value_, digits_, change_, whole_.momentum}; }
  void put_back() {
    give(value_, whole_.value);
    give(digits_, whole_.digits);
    give(change_, whole_.change);
  }

 private:
  template <typename Number>
  [[nodiscard]] std::vector<Number> take(std::span<Number> from) const {
    std::vector<Number> to(from.empty() ? 0 : rows_.size() * row_);
    for (std::size_t i = 0; i < rows_.size() && !to.empty(); ++i) {
      std::copy_n(from.data() + rows_[i] * row_, row_, to.data() + i * row_);
    }
    return to;
  }
  template <typename Number>
  void give(const std::vector<Number>& from, std::span<Number> to) const {
    for (std::size_t i = 0; i < rows_.size() && !from.empty(); ++i) {
      std::copy_n(from.data() + i * row_, row_, to.data() + rows_[i] * row_);
    }
  }

  const WireReference& whole_;
  std::span<const std::uint32_t> rows_;
  std::size_t row_;
  std::vector<std::uint16_t> value_;
  std::vector<std::uint8_t> digits_, change_;
};

/// Rows side by side, from where they lie and back.
void gather_rows(std::span<const std::uint32_t> rows, std::size_t row_bytes, std::span<const std::byte> all,
                 std::span<std::byte> some) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(some.data() + i * row_bytes, all.data() + rows[i] * row_bytes, row_bytes);
  }
}
void scatter_rows(std::span<const std::uint32_t> rows, std::size_t row_bytes, std::span<const std::byte> some,
                  std::span<std::byte> all) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(all.data() + rows[i] * row_bytes, some.data() + i * row_bytes, row_bytes);
  }
}

}  // namespace

/// fp16 has more bits of its 16 for a number's digits than bf16, and numbers that round beyond its largest.
WireFormat coded_format(const WireMode& mode, WireElement element) {
  const bool halves = mode.format == WireFormat::bf16 && element == WireElement::fp16;
  return halves && !mode.residual ? WireFormat::full : mode.format;
}

double bits_of(const WireMode& mode, WireElement element) {
  constexpr std::int64_t kRows = 1024;
  constexpr std::int64_t kRow = 64;
  if (mode.skip) {
    return 0;
  }
  return mode.rows * (1 - mode.stays.value_or(0)) * 8.0 *
         static_cast<double>(Codec(mode.format, element).encoded_bytes(kRows, kRow)) /
         static_cast<double>(kRows * kRow);
}

BlockCodec::BlockCodec(const WireMode& mode, WireElement element, std::int64_t samples,
                       const CodecKernels& kernels)
    : mode_(mode),
      element_(element),
      samples_(samples),
      kernels_(&kernels),
      codec_(coded_format(mode, element), element, kernels) {}

std::int64_t BlockCodec::travelling_rows(std::int64_t rows) const {
  if (mode_.skip) {
    return 0;
  }
  if (mode_.stays) {
    return samples_ * active_row_count(rows / samples_, *mode_.stays);
  }
  return mode_.rows < 1 ? active_row_count(rows, 1 - mode_.rows) : rows;
}

std::size_t BlockCodec::encoded_bytes(std::int64_t rows, std::int64_t row_elements) const {
  const std::size_t mask = mode_.leaves_rows() ? row_mask_bytes(rows) : 0;
  return row_elements == 0 ? 0 : mask + codec_.encoded_bytes(travelling_rows(rows), row_elements);
}

void BlockCodec::require_memory(const BlockMemory* memory, WireEnd end) const {
  if (memory == nullptr && mode_.remembers(end)) {
    throw std::logic_error("wire mode " + to_string(mode_) + " of a block that nobody remembers");
  }
}

void BlockCodec::require_count(const char* what, std::size_t active, std::int64_t rows) const {
  const std::int64_t expected = travelling_rows(rows);
  if (static_cast<std::int64_t>(active) != expected) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(active) + " rows: expected " +
                                std::to_string(expected) + " of " + std::to_string(rows));
  }
}

std::vector<std::uint32_t> BlockCodec::choose(std::int64_t rows, std::size_t row,
                                              std::span<const std::byte> in,
                                              const BlockMemory& memory) const {
  std::vector<float> values(static_cast<std::size_t>(rows) * row);
  load_elements(in, element_, values, *kernels_);
  std::vector<float> scores(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const bool old = memory.most_age > 0 && !memory.ages.empty() && memory.ages[i] + 1 >= memory.most_age;
    scores[i] = old ? std::numeric_limits<float>::infinity()
                    : kernels_->distance(values.data() + i * row, parts_of(memory.reference).from(i * row),
                                         memory.reference.momentum, row);
  }
  return choose_active_rows(scores, 1 - mode_.rows);
}

void BlockCodec::encode_rows(std::span<const std::uint32_t> active, std::size_t row,
                             std::span<const std::byte> in, BlockMemory* memory,
                             std::span<std::byte> out) const {
  const std::size_t row_bytes = row * bytes_of(element_);
  const auto count = static_cast<std::int64_t>(active.size());
  std::vector<std::byte> some(active.size() * row_bytes);
  gather_rows(active, row_bytes, in, some);
  if (memory == nullptr) {
    return codec_.encode(count, static_cast<std::int64_t>(row), some, out);
  }
  ReferenceRows reference(memory->reference, active, row);
  codec_.encode(count, static_cast<std::int64_t>(row), some, reference.some(), mode_.residual, out);
  extrapolate(memory->reference, element_, {}, *kernels_);
  reference.put_back();
  note_ages(*memory, active);
}

void BlockCodec::decode_rows(std::span<const std::uint32_t> active, std::size_t row,
                             std::span<const std::byte> in, BlockMemory& memory,
                             std::span<std::byte> out) const {
  const std::size_t row_bytes = row * bytes_of(element_);
  std::vector<std::byte> some(active.size() * row_bytes);
  ReferenceRows reference(memory.reference, active, row);
  codec_.decode(static_cast<std::int64_t>(active.size()), static_cast<std::int64_t>(row), in,
                reference.some(), mode_.residual, some);
  extrapolate(memory.reference, element_, out, *kernels_);
  reference.put_back();
  scatter_rows(active, row_bytes, some, out);
  note_ages(memory, active);
}

void BlockCodec::encode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
                        BlockMemory* memory, std::span<std::byte> out,
                        std::span<const std::uint32_t> active) const {
  require_memory(memory, WireEnd::sender);
  if (mode_.skip) {
    grow_older(*memory);
    return extrapolate(memory->reference, element_, {}, *kernels_);
  }
  if (!mode_.leaves_rows() || row_elements == 0) {
    if (memory == nullptr) {
      return codec_.encode(rows, row_elements, in, out);
    }
    all_young(*memory);
    return codec_.encode(rows, row_elements, in, memory->reference, mode_.residual, out);
  }
  const auto row = static_cast<std::size_t>(row_elements);
  const std::vector<std::uint32_t> chosen =
      mode_.stays ? std::vector(active.begin(), active.end()) : choose(rows, row, in, *memory);
  require_count("what is active", chosen.size(), rows);
  const std::vector<std::uint8_t> mask = rows_to_mask(chosen, rows);
  std::ranges::copy(std::as_bytes(std::span(mask)), out.begin());
  encode_rows(chosen, row, in, memory, out.subspan(mask.size()));
}

std::vector<std::uint32_t> BlockCodec::mask_rows(std::int64_t rows, std::span<const std::byte> in) const {
  const std::size_t mask_bytes = row_mask_bytes(rows);
  if (in.size() < mask_bytes) {
    throw std::length_error("an encoded block of " + std::to_string(in.size()) +
                            " bytes: expected a row mask of " + std::to_string(mask_bytes));
  }
  std::vector<std::uint8_t> mask(mask_bytes);
  std::ranges::copy(in.first(mask_bytes), std::as_writable_bytes(std::span(mask)).begin());
  std::vector<std::uint32_t> active = mask_to_rows(mask, rows);
  require_count("a row mask", active.size(), rows);
  return active;
}

void BlockCodec::decode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
                        BlockMemory* memory, std::span<std::byte> out) const {
  require_memory(memory, WireEnd::receiver);
  if (memory == nullptr) {
    return codec_.decode(rows, row_elements, in, out);
  }
  if (mode_.skip) {
    grow_older(*memory);
    return extrapolate(memory->reference, element_, out, *kernels_);
  }
  if (!mode_.leaves_rows() || row_elements == 0) {
    all_young(*memory);
    return codec_.decode(rows, row_elements, in, memory->reference, mode_.residual, out);
  }
  const std::vector<std::uint32_t> active = mask_rows(rows, in);
  decode_rows(active, static_cast<std::size_t>(row_elements), in.subspan(row_mask_bytes(rows)), *memory, out);
}

}  // namespace dit
