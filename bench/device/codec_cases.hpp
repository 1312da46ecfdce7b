/// @file
/// Blocks to encode and decode by the device codecs, wherever they run, and what the processor's codec makes
/// of them: all bits must be equal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/codec.hpp"
#include "wire/device/block_jobs.hpp"

namespace dit {

enum class CaseTensor { dense, fused, heads_apart, shifted };
enum class CaseMemory { none, whole, residual, momentum };
enum class CaseValues { normal, wild, tiny, huge, patterns, constant };

struct CodecCase {
  WireFormat format = WireFormat::full;
  WireElement element = WireElement::fp32;
  CaseTensor tensor = CaseTensor::dense;
  CaseMemory memory = CaseMemory::none;
  CaseValues values = CaseValues::normal;
  std::int64_t samples = 1;
  std::int64_t rows = 1;  ///< of a sample
  std::int64_t heads = 1;
  std::int64_t head_dim = 1;
  bool some_rows = false;      ///< only each third row travels
  std::size_t code_shift = 0;  ///< bytes from a multiple of 16 to the code's first
  std::uint32_t seed = 0;
};
[[nodiscard]] std::string to_string(const CodecCase& of);

/// All that a job works on.
struct CaseData {
  std::vector<std::byte> tensor;
  std::size_t tensor_shift = 0;  ///< bytes before its first element
  std::vector<std::byte> code;   ///< with code_shift bytes before it
  std::size_t code_shift = 0;
  std::vector<std::uint32_t> rows;
  std::vector<std::uint16_t> value;
  std::vector<std::uint8_t> digits, change;
};

/// Where jobs run.
class CaseRunner {
 public:
  virtual ~CaseRunner() = default;
  /// `job`: with null pointers where the data belongs.
  virtual void run(bool encode, LaneFormat format, CodeJob job, CaseData& data) = 0;
};
/// Where a runner has the data.
struct CasePointers {
  std::byte* tensor;
  std::uint8_t* code;  ///< the first byte, behind the shift
  std::uint32_t* rows;
  std::uint16_t* value;
  std::uint8_t* digits;
  std::uint8_t* change;
};
void point_to(CodeJob& job, CaseData& data, const CasePointers& at);

/// Several steps of one block; "" or what was different.
[[nodiscard]] std::string check_case(const CodecCase& of, CaseRunner& runner);

/// Every format, element, memory, tensor and kind of values, in shapes with parts of groups, segments and
/// rows. `thorough`: of all shapes, all of the rest.
[[nodiscard]] std::vector<CodecCase> codec_cases(bool thorough);

}  // namespace dit
