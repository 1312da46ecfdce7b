#include "wire/codec.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace dit {
namespace {

constexpr std::array<const char*, kWireFormats> kNames = {"full", "bf16", "fp8", "int8",
                                                          "int4", "int2", "int1"};
constexpr std::size_t kMost = std::size_t{1} << 62U;

using Segment = std::array<float, kWireSegment>;

std::size_t group_index(WireFormat format) {
  return static_cast<std::size_t>(format) - static_cast<std::size_t>(WireFormat::int8);
}

std::size_t segment_bytes(WireFormat format, std::size_t count) {
  const std::size_t groups = (count + kWireGroup - 1) / kWireGroup;
  return 1 + groups * (1 + (kWireGroup >> group_index(format)));
}

std::size_t whole(const char* name, std::int64_t value) {
  if (value < 0) {
    throw std::length_error(std::string(name) + " = " + std::to_string(value) + ": expected at least 0");
  }
  return static_cast<std::size_t>(value);
}

void require_bytes(const char* what, std::size_t has, std::size_t wanted) {
  if (has != wanted) {
    throw std::length_error(std::string(what) + " has " + std::to_string(has) + " bytes: expected " +
                            std::to_string(wanted));
  }
}

const std::uint8_t* code_at(std::span<const std::byte> bytes, std::size_t at) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data() + at);
}
std::uint8_t* code_at(std::span<std::byte> bytes, std::size_t at) {
  return reinterpret_cast<std::uint8_t*>(bytes.data() + at);
}

/// Elements of a tensor as floats, and back.
class Elements {
 public:
  Elements(WireElement element, const CodecKernels& kernels) : element_(element), kernels_(&kernels) {}
  void load(std::span<const std::byte> tensor, std::size_t at, std::size_t count, float* values) const {
    const std::byte* from = tensor.data() + at * bytes_of(element_);
    if (element_ == WireElement::fp32) {
      std::memcpy(values, from, count * sizeof(float));
      return;
    }
    std::array<std::uint16_t, kWireSegment> halves;
    std::memcpy(halves.data(), from, count * sizeof(std::uint16_t));
    (element_ == WireElement::bf16 ? kernels_->widen : kernels_->widen_fp16)(halves.data(), count, values);
  }
  void store(const float* values, std::size_t count, std::span<std::byte> tensor, std::size_t at) const {
    std::byte* to = tensor.data() + at * bytes_of(element_);
    if (element_ == WireElement::fp32) {
      std::memcpy(to, values, count * sizeof(float));
      return;
    }
    std::array<std::uint16_t, kWireSegment> halves;
    (element_ == WireElement::bf16 ? kernels_->narrow : kernels_->narrow_fp16)(values, count, halves.data());
    std::memcpy(to, halves.data(), count * sizeof(std::uint16_t));
  }

 private:
  WireElement element_;
  const CodecKernels* kernels_;
};

}  // namespace

const char* to_string(WireFormat format) {
  return kNames[static_cast<std::size_t>(format)];
}

WireFormat parse_wire_format(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    throw std::invalid_argument("wire format '" + std::string(name) +
                                "': expected full, bf16, fp8, int8, int4, int2 or int1");
  }
  return static_cast<WireFormat>(found - kNames.begin());
}

std::size_t bytes_of(WireElement element) {
  return element == WireElement::fp32 ? 4 : 2;
}

/// One block cut into pieces that fit in a segment.
class Codec::Pass {
 public:
  Pass(const Codec& codec, std::int64_t rows, std::int64_t row_elements)
      : codec_(codec),
        kernels_(*codec.kernels_),
        tensor_(codec.element_, kernels_),
        row_(whole("row_elements", row_elements)) {
    if (__builtin_mul_overflow(whole("rows", rows), row_, &elements_) || elements_ > kMost / 8) {
      throw std::length_error("a block of " + std::to_string(rows) + " rows of " +
                              std::to_string(row_elements) + " elements: expected less than 2^59 elements");
    }
  }

  [[nodiscard]] std::size_t elements() const { return elements_; }
  [[nodiscard]] std::size_t tensor_bytes() const { return elements_ * bytes_of(codec_.element_); }
  [[nodiscard]] std::size_t code_bytes() const {
    if (elements_ == 0) {
      return 0;
    }
    if (codec_.format_ == WireFormat::fp8) {
      return elements_ + elements_ / row_ * ((row_ + kWireSegment - 1) / kWireSegment);
    }
    const std::size_t rest = elements_ % kWireSegment;
    return elements_ / kWireSegment * piece_bytes(kWireSegment) + (rest > 0 ? piece_bytes(rest) : 0);
  }

  /// Goes through the block: next() makes a piece of `count` elements from element `at`, whose code is at
  /// `code`, the present one.
  [[nodiscard]] bool next() {
    if (elements_ == 0) {
      return false;
    }
    at_ += count_;
    code_ += count_ > 0 ? piece_bytes(count_) : 0;
    count_ = std::min(kWireSegment, elements_ - at_);
    if (codec_.format_ == WireFormat::fp8) {
      count_ = row_ <= kWireSegment ? std::min(count_, kWireSegment / row_ * row_)
                                    : std::min(count_, row_ - at_ % row_);
    }
    return count_ > 0;
  }
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] std::size_t count() const { return count_; }

  void load(std::span<const std::byte> tensor, Segment& values) const {
    tensor_.load(tensor, at_, count_, values.data());
  }
  void store(const float* values, std::span<std::byte> tensor) const {
    tensor_.store(values, count_, tensor, at_);
  }

  /// Fills `values` up to a whole group.
  void encode(Segment& values, std::span<std::byte> out) const {
    switch (codec_.format_) {
      case WireFormat::full:
        return store(values.data(), out);
      case WireFormat::bf16:
        return Elements(WireElement::bf16, kernels_).store(values.data(), count_, out, at_);
      case WireFormat::fp8:
        return kernels_.encode_fp8(values.data(), rows_of_piece(), count_ / rows_of_piece(),
                                   code_at(out, code_));
      default:
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(count_),
                    (kWireGroup - count_ % kWireGroup) % kWireGroup, 0.0F);
        return kernels_.encode[group_index(codec_.format_)](values.data(), count_, code_at(out, code_));
    }
  }

  void decode(std::span<const std::byte> in, Segment& values) const {
    switch (codec_.format_) {
      case WireFormat::full:
        return load(in, values);
      case WireFormat::bf16:
        return Elements(WireElement::bf16, kernels_).load(in, at_, count_, values.data());
      case WireFormat::fp8:
        return kernels_.decode_fp8(code_at(in, code_), rows_of_piece(), count_ / rows_of_piece(),
                                   values.data());
      default:
        return kernels_.decode[group_index(codec_.format_)](code_at(in, code_), count_, values.data());
    }
  }

  /// `values`: what was decoded; of a residual (`momentum` not null) they become what it stands for.
  void remember(Segment& values, const ReferenceParts& reference, const float* momentum) const {
    if (momentum != nullptr) {
      kernels_.advance(values.data(), *momentum, count_, reference, values.data());
    } else {
      kernels_.replace(values.data(), count_, reference);
    }
  }

 private:
  [[nodiscard]] std::size_t rows_of_piece() const { return row_ <= kWireSegment ? count_ / row_ : 1; }
  [[nodiscard]] std::size_t piece_bytes(std::size_t count) const {
    switch (codec_.format_) {
      case WireFormat::full:
        return count * bytes_of(codec_.element_);
      case WireFormat::bf16:
        return 2 * count;
      case WireFormat::fp8:
        return count + (row_ <= kWireSegment ? count / row_ : 1);
      default:
        return segment_bytes(codec_.format_, count);
    }
  }

  const Codec& codec_;
  const CodecKernels& kernels_;
  Elements tensor_;
  std::size_t row_;
  std::size_t elements_ = 0;
  std::size_t at_ = 0, count_ = 0, code_ = 0;  // of the present piece
};

namespace {

void require_reference(const WireReference& reference, std::size_t elements) {
  if (reference.value.size() != elements || reference.digits.size() != elements ||
      (!reference.change.empty() && reference.change.size() != elements)) {
    throw std::length_error("a reference of " + std::to_string(reference.value.size()) + ", " +
                            std::to_string(reference.digits.size()) + " and " +
                            std::to_string(reference.change.size()) + " numbers: expected twice " +
                            std::to_string(elements) + ", and as many or none");
  }
}

}  // namespace

ReferenceParts parts_of(const WireReference& reference) {
  return {reference.value.data(), reference.digits.data(),
          reference.change.empty() ? nullptr : reference.change.data()};
}

Codec::Codec(WireFormat format, WireElement element, const CodecKernels& kernels)
    : format_(format), element_(element), kernels_(&kernels) {}

std::size_t Codec::encoded_bytes(std::int64_t rows, std::int64_t row_elements) const {
  return Pass(*this, rows, row_elements).code_bytes();
}

void Codec::encode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
                   std::span<std::byte> out) const {
  Pass pass(*this, rows, row_elements);
  require_bytes("the block to encode", in.size(), pass.tensor_bytes());
  require_bytes("the encoded block", out.size(), pass.code_bytes());
  Segment values;
  while (pass.next()) {
    pass.load(in, values);
    pass.encode(values, out);
  }
}

void Codec::decode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
                   std::span<std::byte> out) const {
  Pass pass(*this, rows, row_elements);
  require_bytes("the encoded block", in.size(), pass.code_bytes());
  require_bytes("the decoded block", out.size(), pass.tensor_bytes());
  Segment values;
  while (pass.next()) {
    pass.decode(in, values);
    pass.store(values.data(), out);
  }
}

void Codec::encode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
                   const WireReference& reference, bool residual, std::span<std::byte> out,
                   std::span<std::byte> came) const {
  Pass pass(*this, rows, row_elements);
  require_bytes("the block to encode", in.size(), pass.tensor_bytes());
  require_bytes("the encoded block", out.size(), pass.code_bytes());
  require_bytes("what comes of it", came.size(), came.empty() ? 0 : pass.tensor_bytes());
  require_reference(reference, pass.elements());
  Segment values;
  while (pass.next()) {
    const ReferenceParts part = parts_of(reference).from(pass.at());
    pass.load(in, values);
    if (residual) {
      kernels_->residual(values.data(), part, reference.momentum, pass.count(), values.data());
    }
    pass.encode(values, out);
    pass.decode(out, values);
    pass.remember(values, part, residual ? &reference.momentum : nullptr);
    if (!came.empty()) {
      pass.store(values.data(), came);
    }
  }
}

void Codec::decode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
                   const WireReference& reference, bool residual, std::span<std::byte> out) const {
  Pass pass(*this, rows, row_elements);
  require_bytes("the encoded block", in.size(), pass.code_bytes());
  require_bytes("the decoded block", out.size(), pass.tensor_bytes());
  require_reference(reference, pass.elements());
  Segment values;
  while (pass.next()) {
    const ReferenceParts part = parts_of(reference).from(pass.at());
    pass.decode(in, values);
    pass.remember(values, part, residual ? &reference.momentum : nullptr);
    pass.store(values.data(), out);
  }
}

void load_elements(std::span<const std::byte> tensor, WireElement element, std::span<float> values,
                   const CodecKernels& kernels) {
  require_bytes("the tensor", tensor.size(), values.size() * bytes_of(element));
  for (std::size_t at = 0; at < values.size(); at += kWireSegment) {
    const std::size_t count = std::min(kWireSegment, values.size() - at);
    Elements(element, kernels).load(tensor, at, count, values.data() + at);
  }
}

void store_elements(std::span<const float> values, WireElement element, std::span<std::byte> tensor,
                    const CodecKernels& kernels) {
  require_bytes("the tensor", tensor.size(), values.size() * bytes_of(element));
  for (std::size_t at = 0; at < values.size(); at += kWireSegment) {
    const std::size_t count = std::min(kWireSegment, values.size() - at);
    Elements(element, kernels).store(values.data() + at, count, tensor, at);
  }
}

void recall(const WireReference& reference, WireElement element, std::span<std::byte> out,
            const CodecKernels& kernels) {
  require_reference(reference, reference.value.size());
  require_bytes("the block", out.size(), reference.value.size() * bytes_of(element));
  Segment values;
  for (std::size_t at = 0; at < reference.value.size(); at += kWireSegment) {
    const std::size_t count = std::min(kWireSegment, reference.value.size() - at);
    kernels.recall(parts_of(reference).from(at), count, values.data());
    Elements(element, kernels).store(values.data(), count, out, at);
  }
}

void extrapolate(const WireReference& reference, WireElement element, std::span<std::byte> out,
                 const CodecKernels& kernels) {
  const std::size_t elements = reference.value.size();
  require_reference(reference, elements);
  require_bytes("the block", out.size(), out.empty() ? 0 : elements * bytes_of(element));
  Segment values;
  for (std::size_t at = 0; at < elements; at += kWireSegment) {
    const std::size_t count = std::min(kWireSegment, elements - at);
    const ReferenceParts part = parts_of(reference).from(at);
    kernels.advance(nullptr, reference.momentum, count, part, values.data());
    if (!out.empty()) {
      Elements(element, kernels).store(values.data(), count, out, at);
    }
  }
}

}  // namespace dit
