#include "codec_cases.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "wire/pack.hpp"

namespace dit {
namespace {

constexpr std::byte kUntouched{0xab};
constexpr std::size_t kTensorShift = 16;

std::int64_t all_rows(const CodecCase& of) {
  return of.samples * of.rows;
}
std::int64_t row_elements(const CodecCase& of) {
  return of.heads * of.head_dim;
}

TensorShape shape_of(const CodecCase& of) {
  // One head more than the block has, so that blocks are slices.
  return {of.samples, of.rows, of.heads + 1, of.head_dim};
}
TensorStrides strides_of(const CodecCase& of) {
  TensorStrides strides = dense_strides(shape_of(of));
  if (of.tensor == CaseTensor::fused) {
    strides.row *= 3;
    strides.batch = strides.row * of.rows;
  } else if (of.tensor == CaseTensor::heads_apart) {
    strides = {(of.heads + 1) * of.rows * of.head_dim, of.head_dim, of.rows * of.head_dim};
  }
  return strides;
}
PeerBlock block_of(const CodecCase& of) {
  const std::int64_t width = shape_of(of).row_elements();
  PeerBlock block{row_elements(of), {}};
  // Two runs of each sample: the layout of text and image.
  for (std::int64_t sample = 0; sample < of.samples; ++sample) {
    const std::int64_t first = of.rows / 3;
    const std::int64_t at = sample * of.rows * width + of.head_dim;  // the second head is the first to go
    const bool swapped = of.seed % 2 == 1;
    const RowRun low{at, first, width};
    const RowRun high{at + first * width, of.rows - first, width};
    block.runs.push_back(swapped ? high : low);
    block.runs.push_back(swapped ? low : high);
  }
  return block;
}

float value_of(const CodecCase& of, std::mt19937& random, std::size_t i) {
  const auto bits = static_cast<std::uint32_t>(random());
  std::normal_distribution<float> normal(0, 1);
  switch (of.values) {
    case CaseValues::normal:
      return normal(random);
    case CaseValues::tiny:
      return normal(random) * std::ldexp(1.0F, -120 - static_cast<int>(bits % 28));
    case CaseValues::huge:
      return normal(random) * std::ldexp(1.0F, 100 + static_cast<int>(bits % 27));
    case CaseValues::constant:
      return i / 640 % 2 == 0 ? 0.7F : 0.0F;
    case CaseValues::patterns:
      return std::bit_cast<float>(static_cast<std::uint32_t>(i * 0x9e3779b1U));
    case CaseValues::wild:
      break;
  }
  const auto kind = static_cast<std::uint32_t>(random() % 200);
  if (kind == 0) return std::bit_cast<float>(0x7fc00000U | bits);  // NaNs of all bits
  if (kind == 1) return std::bit_cast<float>(0x7f800001U | (bits & 0x803fffffU));
  if (kind == 2) return (bits & 1U) != 0 ? INFINITY : -INFINITY;
  if (kind == 3) return std::bit_cast<float>(bits & 0x807fffffU);
  if (kind < 8) return (bits & 1U) != 0 ? 0.0F : -0.0F;
  if (kind < 20) return std::bit_cast<float>(bits);
  return static_cast<float>(static_cast<int>(bits % 2001) - 1000) / 300;
}

/// A tensor of all bits, or of numbers.
std::vector<std::byte> tensor_of(const CodecCase& of, int step) {
  const auto elements = static_cast<std::size_t>(extent(shape_of(of), strides_of(of)));
  std::vector<std::byte> bytes(elements * bytes_of(of.element));
  std::mt19937 random(of.seed * 977 + static_cast<std::uint32_t>(step));
  if (of.values == CaseValues::patterns && of.element != WireElement::fp32) {
    for (std::size_t i = 0; i < elements; ++i) {
      const auto half = static_cast<std::uint16_t>(i * (step == 0 ? 1 : 40503));
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
    return bytes;
  }
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i)
    values[i] = value_of(of, random, i + static_cast<std::size_t>(step));
  store_elements(values, of.element, bytes);
  return bytes;
}

std::vector<std::uint32_t> rows_of(const CodecCase& of) {
  std::vector<std::uint32_t> rows;
  for (std::int64_t row = 0; row < all_rows(of); ++row) {
    if (!of.some_rows || row % 3 == 1) rows.push_back(static_cast<std::uint32_t>(row));
  }
  return rows;
}

/// One end's memory, for the processor: of the rows that travel, side by side.
struct Reference {
  std::vector<std::uint16_t> value;
  std::vector<std::uint8_t> digits, change;
  [[nodiscard]] WireReference whole(const CodecCase& of) {
    return {value, digits, change, of.memory == CaseMemory::momentum ? 0.7F : 0.0F};
  }
};

Reference fresh(const CodecCase& of) {
  const auto elements = static_cast<std::size_t>(all_rows(of) * row_elements(of));
  Reference reference;
  if (of.memory == CaseMemory::none) return reference;
  reference.value.resize(elements);
  reference.digits.resize(elements);
  reference.change.resize(of.memory == CaseMemory::momentum ? elements : 0);
  return reference;
}

template <typename Number>
std::vector<Number> taken(const std::vector<Number>& from, const std::vector<std::uint32_t>& rows,
                          std::size_t row) {
  std::vector<Number> to;
  for (const std::uint32_t at : rows) {
    if (from.empty()) break;
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(at * row),
              from.begin() + static_cast<std::ptrdiff_t>((at + 1) * row));
  }
  return to;
}
template <typename Number>
void given(std::vector<Number>& to, const std::vector<Number>& from, const std::vector<std::uint32_t>& rows,
           std::size_t row) {
  for (std::size_t i = 0; i < rows.size() && !to.empty(); ++i) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i * row), row,
                to.begin() + static_cast<std::ptrdiff_t>(rows[i] * row));
  }
}

/// The case on the processor and on the runner, step by step.
class Case {
 public:
  Case(const CodecCase& of, CaseRunner& runner)
      : of_(of),
        runner_(runner),
        codec_(of.format, of.element),
        block_(block_of(of)),
        rows_(rows_of(of)),
        row_(static_cast<std::size_t>(row_elements(of))),
        count_(static_cast<std::int64_t>(rows_.size())),
        sender_(fresh(of)),
        receiver_(sender_) {
    for (CaseData* data : {&sends_, &receives_}) {
      data->value = sender_.value;
      data->digits = sender_.digits;
      data->change = sender_.change;
      data->code_shift = of.code_shift;
      data->rows = of.some_rows ? rows_ : std::vector<std::uint32_t>{};
      data->tensor_shift =
          of.tensor == CaseTensor::shifted ? kTensorShift - bytes_of(of.element) : kTensorShift;
    }
  }

  std::string step(int number) {
    const std::vector<std::byte> tensor = tensor_of(of_, number);
    encode_here(tensor);
    run(true, sends_, tensor);
    if (const std::size_t at = first_difference(code_, sends_.code); at < code_.size()) {
      return "code differs at byte " + std::to_string(at) + " of " + std::to_string(code_.size());
    }
    if (!same(sender_, sends_)) return "what the sender remembers differs";
    return arrives(tensor.size());
  }

  /// Bytes that nobody encoded.
  std::string foreign() {
    std::mt19937 random(of_.seed * 31 + 7);
    for (std::size_t at = of_.code_shift; at < code_.size(); ++at) {
      code_[at] = static_cast<std::byte>(random() % 256);
    }
    const std::string words =
        arrives(static_cast<std::size_t>(extent(shape_of(of_), strides_of(of_))) * bytes_of(of_.element));
    return words.empty() ? words : "of foreign bytes " + words;
  }

 private:
  std::string arrives(std::size_t bytes) {
    std::vector<std::byte> target(bytes, kUntouched);
    receives_.code = code_;
    decode_here(target);
    run(false, receives_, std::vector<std::byte>(bytes, kUntouched));
    const std::vector<std::byte> got(
        receives_.tensor.begin() + static_cast<std::ptrdiff_t>(receives_.tensor_shift),
        receives_.tensor.end());
    if (const std::size_t at = first_difference(target, got); at < target.size()) {
      return "the decoded tensor differs at byte " + std::to_string(at) + " of " +
             std::to_string(target.size());
    }
    return same(receiver_, receives_) ? "" : "what the receiver remembers differs";
  }
  static std::size_t first_difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  }
  static bool same(const Reference& a, const CaseData& b) {
    return a.value == b.value && a.digits == b.digits && a.change == b.change;
  }
  [[nodiscard]] bool residual() const {
    return of_.memory == CaseMemory::residual || of_.memory == CaseMemory::momentum;
  }

  void encode_here(const std::vector<std::byte>& tensor) {
    const std::vector<std::byte> some = taken(packed(tensor), rows_, row_ * bytes_of(of_.element));
    code_.assign(of_.code_shift + codec_.encoded_bytes(count_, row_elements(of_)), kUntouched);
    const std::span<std::byte> code = std::span(code_).subspan(of_.code_shift);
    if (of_.memory == CaseMemory::none) {
      codec_.encode(count_, row_elements(of_), some, code);
    } else {
      Reference part = part_of(sender_);
      codec_.encode(count_, row_elements(of_), some, part.whole(of_), residual(), code);
      put_back(sender_, part);
    }
    sends_.code.assign(code_.size(), kUntouched);
  }
  void decode_here(std::vector<std::byte>& target) {
    std::vector<std::byte> all = packed(target);
    std::vector<std::byte> some(rows_.size() * row_ * bytes_of(of_.element));
    const std::span<const std::byte> code = std::span(code_).subspan(of_.code_shift);
    if (of_.memory == CaseMemory::none) {
      codec_.decode(count_, row_elements(of_), code, some);
    } else {
      Reference part = part_of(receiver_);
      codec_.decode(count_, row_elements(of_), code, part.whole(of_), residual(), some);
      put_back(receiver_, part);
    }
    given(all, some, rows_, row_ * bytes_of(of_.element));
    unpack(std::span(&block_, 1), bytes_of(of_.element), all,
           TargetTensor(std::span(target), shape_of(of_), strides_of(of_)));
  }

  [[nodiscard]] std::vector<std::byte> packed(const std::vector<std::byte>& tensor) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(block_.elements()) * bytes_of(of_.element));
    pack(std::span(&block_, 1), bytes_of(of_.element),
         SourceTensor(std::span<const std::byte>(tensor), shape_of(of_), strides_of(of_)), bytes);
    return bytes;
  }
  [[nodiscard]] Reference part_of(const Reference& all) const {
    return {taken(all.value, rows_, row_), taken(all.digits, rows_, row_), taken(all.change, rows_, row_)};
  }
  void put_back(Reference& all, const Reference& part) const {
    given(all.value, part.value, rows_, row_);
    given(all.digits, part.digits, rows_, row_);
    given(all.change, part.change, rows_, row_);
  }

  void run(bool encode, CaseData& data, const std::vector<std::byte>& tensor) {
    data.tensor.assign(data.tensor_shift, kUntouched);
    data.tensor.insert(data.tensor.end(), tensor.begin(), tensor.end());
    // As if the tensor began at its true remainder of 16.
    auto* const where = reinterpret_cast<std::byte*>(std::uintptr_t{4096} + data.tensor_shift);
    CodeJob job =
        job_of(of_.format, of_.element, place_of(block_, of_.element, where, shape_of(of_), strides_of(of_)),
               count_, nullptr);
    job.memory.momentum = receiver_.whole(of_).momentum;
    job.memory.residual = residual();
    runner_.run(encode, lane_format(of_.format, of_.element), job, data);
  }

  const CodecCase& of_;
  CaseRunner& runner_;
  Codec codec_;
  PeerBlock block_;
  std::vector<std::uint32_t> rows_;
  std::size_t row_;
  std::int64_t count_;
  Reference sender_, receiver_;
  CaseData sends_, receives_;
  std::vector<std::byte> code_;
};

}  // namespace

void point_to(CodeJob& job, CaseData& data, const CasePointers& at) {
  job.place.tensor = at.tensor + data.tensor_shift;
  job.place.rows = data.rows.empty() ? nullptr : at.rows;
  job.code = at.code;
  if (!data.value.empty()) {
    give_memory(job, {at.value, at.digits, data.change.empty() ? nullptr : at.change}, job.memory.momentum,
                job.memory.residual);
  }
}

std::string to_string(const CodecCase& of) {
  constexpr const char* kElements[] = {"fp32", "bf16", "fp16"};
  constexpr const char* kTensors[] = {"dense", "fused", "heads apart", "shifted"};
  constexpr const char* kMemories[] = {"nothing remembered", "remembered", "residual", "momentum"};
  constexpr const char* kValues[] = {"normal", "wild", "tiny", "huge", "patterns", "constant"};
  return std::string(to_string(of.format)) + " of " + kElements[static_cast<int>(of.element)] + ", " +
         kTensors[static_cast<int>(of.tensor)] + ", " + kMemories[static_cast<int>(of.memory)] + ", " +
         kValues[static_cast<int>(of.values)] + ", " + std::to_string(of.samples) + " x " +
         std::to_string(of.rows) + " x " + std::to_string(of.heads) + " x " + std::to_string(of.head_dim) +
         (of.some_rows ? ", some rows" : "") + ", code at " + std::to_string(of.code_shift);
}

std::string check_case(const CodecCase& of, CaseRunner& runner) {
  Case all(of, runner);
  const int steps = of.memory == CaseMemory::none ? 1 : 3;
  for (int step = 0; step < steps; ++step) {
    const std::string words = all.step(step);
    if (!words.empty()) return to_string(of) + ": step " + std::to_string(step) + ": " + words;
  }
  const std::string words = all.foreign();
  return words.empty() ? words : to_string(of) + ": " + words;
}

namespace {

struct Shape {
  std::int64_t samples, rows, heads, head_dim;
};
// Parts of groups, of segments, of rows; long rows; rows of one number; many samples.
constexpr Shape kShapes[] = {{1, 24, 3, 64}, {2, 33, 4, 128}, {1, 5, 1, 33},  {1, 3, 12, 128},
                             {1, 2, 25, 80}, {9, 4, 2, 40},   {1, 1, 1, 1},   {1, 700, 1, 3},
                             {3, 2, 5, 205}, {1, 1500, 1, 1}, {1, 64, 2, 16}, {1, 9, 1, 1024}};

}  // namespace

std::vector<CodecCase> codec_cases(bool thorough) {
  std::vector<CodecCase> cases;
  std::uint32_t seed = 0;
  for (int format = 0; format < kWireFormats; ++format) {
    for (int element = 0; element < 3; ++element) {
      for (int memory = 0; memory < 4; ++memory) {
        for (const Shape& shape : kShapes) {
          for (int tensor = 0; tensor < 4; ++tensor) {
            for (int values = 0; values < 6; ++values) {
              ++seed;
              if (!thorough && (seed + static_cast<std::uint32_t>(tensor) * 3) % 6 != 0) continue;
              CodecCase one;
              one.format = static_cast<WireFormat>(format);
              one.element = static_cast<WireElement>(element);
              one.memory = static_cast<CaseMemory>(memory);
              one.tensor = static_cast<CaseTensor>(tensor);
              one.values = static_cast<CaseValues>(values);
              one.samples = shape.samples;
              one.rows = shape.rows;
              one.heads = shape.heads;
              one.head_dim = shape.head_dim;
              one.some_rows = seed % 5 == 0 && shape.rows > 1;
              one.code_shift = seed % 7 < 3 ? 0 : seed % 16;
              one.seed = seed;
              cases.push_back(one);
            }
          }
        }
      }
    }
    for (int element = 0; element < 3; ++element) {  // all patterns of 16 bits
      CodecCase one;
      one.format = static_cast<WireFormat>(format);
      one.element = static_cast<WireElement>(element);
      one.values = CaseValues::patterns;
      one.rows = 520;
      one.heads = 1;
      one.head_dim = 128;
      cases.push_back(one);
      one.memory = CaseMemory::momentum;
      cases.push_back(one);
    }
  }
  return cases;
}

}  // namespace dit
