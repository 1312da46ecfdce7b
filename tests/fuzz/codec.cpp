// Wire codecs: a block in a mode, over steps. Both ends remember the same, every processor's loops write the
// same bytes, and bytes that nobody encoded do no harm.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz.hpp"
#include "wire/block_codec.hpp"
#include "wire/v_major.hpp"

namespace {

using Bytes = std::vector<std::byte>;

struct Block {
  dit::WireMode mode;
  dit::WireElement element = dit::WireElement::fp32;
  std::int64_t rows = 0, row_elements = 0;
  float momentum = 0;
  [[nodiscard]] std::size_t elements() const { return static_cast<std::size_t>(rows * row_elements); }
  [[nodiscard]] std::size_t bytes() const { return elements() * dit::bytes_of(element); }
};

/// One end: its memory, and the codec of one processor.
class End {
 public:
  End(const Block& block, const dit::CodecKernels& kernels, dit::WireEnd end)
      : block_(block),
        codec_(block.mode, block.element, 1, kernels),
        remembers_(block.mode.remembers(end)),
        value_(block.elements()),
        digits_(block.elements()),
        change_(block.momentum > 0 ? block.elements() : 0),
        ages_(static_cast<std::size_t>(block.rows)) {}

  Bytes encode(const Bytes& in, std::span<const std::uint32_t> active) {
    Bytes out(codec_.encoded_bytes(block_.rows, block_.row_elements));
    dit::BlockMemory memory = own();
    codec_.encode(block_.rows, block_.row_elements, in, remembers_ ? &memory : nullptr, out, active);
    return out;
  }
  Bytes decode(const Bytes& in, Bytes before) {
    dit::BlockMemory memory = own();
    codec_.decode(block_.rows, block_.row_elements, in, remembers_ ? &memory : nullptr, before);
    return before;
  }
  [[nodiscard]] bool remembers() const { return remembers_; }
  bool operator==(const End& other) const {
    return value_ == other.value_ && digits_ == other.digits_ && change_ == other.change_;
  }

 private:
  [[nodiscard]] dit::BlockMemory own() { return {{value_, digits_, change_, block_.momentum}, ages_, 0}; }

  const Block& block_;
  dit::BlockCodec codec_;
  bool remembers_;
  std::vector<std::uint16_t> value_;
  std::vector<std::uint8_t> digits_, change_;
  std::vector<std::uint16_t> ages_;
};

Block block_of(fuzz::Numbers& numbers) {
  Block block;
  block.mode.format = static_cast<dit::WireFormat>(numbers.up_to(dit::kWireFormats - 1));
  const int kind = numbers.up_to(4);
  block.mode.residual = kind == 1 || kind == 3;
  if (kind == 2 || kind == 3) block.mode.rows = 0.1 + 0.2 * numbers.up_to(4);
  if (kind == 4) block.mode.stays = 0.25 * numbers.up_to(4);
  block.element = static_cast<dit::WireElement>(numbers.up_to(2));
  block.rows = numbers.up_to(9);
  block.row_elements = numbers.coin() ? numbers.up_to(200) : numbers.up_to(9);
  if (numbers.coin()) block.momentum = 0.75F;
  return block;
}

/// Bytes of the input, again and again: they make numbers of all kinds.
Bytes bytes_of(std::string_view from, std::size_t size, std::size_t begin) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = from.empty() ? std::byte{} : static_cast<std::byte>(from[(begin + i) % from.size()]);
  return bytes;
}

std::vector<std::uint32_t> active_rows(const Block& block, std::size_t step) {
  if (!block.mode.stays) return {};
  std::vector<float> scores(static_cast<std::size_t>(block.rows));
  for (std::size_t row = 0; row < scores.size(); ++row)
    scores[row] = static_cast<float>((row * 7 + step * 3) % 11);
  return dit::choose_active_rows(scores, *block.mode.stays);
}

void damage(Bytes bytes, std::string_view by, End& receiver, const Block& block) {
  for (std::size_t i = 0; i < bytes.size() && !by.empty(); i += 3)
    bytes[i] ^= static_cast<std::byte>(by[i % by.size()]);
  try {
    (void)receiver.decode(bytes, Bytes(block.bytes()));
  } catch (const std::invalid_argument& error) {  // rows that are not as many as must travel
    fuzz::require_words(error);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Numbers numbers(data, size);
  const Block block = block_of(numbers);
  const std::string_view rest = numbers.rest();
  End sender(block, dit::kPortableKernels, dit::WireEnd::sender);
  End fast_sender(block, dit::fastest_codec_kernels(), dit::WireEnd::sender);
  End receiver(block, dit::fastest_codec_kernels(), dit::WireEnd::receiver);
  Bytes last(block.bytes());
  for (std::size_t step = 0; step < 3; ++step) {
    const Bytes in = bytes_of(rest, block.bytes(), step * 5);
    const auto active = active_rows(block, step);
    const Bytes sent = sender.encode(in, active);
    fuzz::require(fast_sender.encode(in, active) == sent, "all processors write the same bytes");
    last = receiver.decode(sent, last);
    if (!sender.remembers()) continue;
    fuzz::require(sender == receiver && fast_sender == receiver, "both ends remember the same");
  }
  damage(sender.encode(last, active_rows(block, 0)), rest, receiver, block);
  return 0;
}
