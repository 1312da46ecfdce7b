/// One block to encode or to decode, as plain data for kernels, and how it is cut into segments.
#pragma once

#include "wire/device/block_place.hpp"
#include "wire/device/lane_codes.hpp"

namespace dit {

/// What is remembered of a block, a number after the other (WireReference of codec.hpp). Where only some rows
/// travel it has all rows.
struct JobMemory {
  std::uint16_t* value = nullptr;  ///< null: nothing is remembered
  std::uint8_t* digits = nullptr;
  std::uint8_t* change = nullptr;  ///< null: no momentum
  float momentum = 0;
  bool residual = false;  ///< only the difference to what is expected travels
  bool wide = false;      ///< the three begin at multiples of 16 bytes, and so do rows where only some travel
};

struct CodeJob {
  BlockPlace place;  ///< no tensor: nothing is written to one
  std::uint8_t* code = nullptr;
  JobMemory memory;
  WireElement element = WireElement::fp32;
  std::uint32_t numbers = 0;        ///< that travel
  std::uint32_t segments = 0;       ///< of segments_of()
  std::uint32_t first_segment = 0;  ///< of those of a launch
  Divisor row_segments;             ///< of fp8 with rows beyond a segment: their segments
  Divisor row_code;                 ///< of fp8: bytes of a row's code
};

/// What is done with a block.
enum class CodeWork : std::uint8_t {
  encode,
  decode,
  recall,      ///< what is remembered, to the tensor
  extrapolate  ///< what is remembered moves on as expected; to the tensor, too
};

/// What is known of all jobs of a launch, for which kernels are made. Jobs that are plain: numbers of 16 bits
/// of which all rows travel, at places that are plain; what is remembered is wide.
enum class JobKind : std::uint8_t {
  any,
  plain_fp16,
  plain_bf16,
  one_row  ///< plain_bf16, and no segment of fp8 has numbers of two rows
};
inline constexpr int kJobKinds = 4;

/// Blocks of one launch: all of one format, all with a memory or all without.
inline constexpr std::uint32_t kMostJobs = 8;
struct CodeJobs {
  std::uint32_t count = 0;
  std::uint32_t segments = 0;  ///< of all
  CodeJob job[kMostJobs];
};
static_assert(sizeof(CodeJobs) <= 4000, "what is given to kernels");

/// What a team works on: numbers that follow each other, and where their code begins.
struct Segment {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::size_t code = 0;  ///< bytes from the block's
};

namespace {

/// Which job of a launch has the segment.
DIT_SHARED std::uint32_t job_at(const CodeJobs& jobs, std::uint32_t segment) {
  std::uint32_t at = 0;
  while (at + 1 < jobs.count && segment >= jobs.job[at + 1].first_segment) {
    ++at;
  }
  return at;
}

DIT_SHARED std::uint32_t least_of(std::uint32_t a, std::uint32_t b) {
  return a < b ? a : b;
}

constexpr std::uint32_t kSegment = static_cast<std::uint32_t>(kWireSegment);

/// Rows of fp8 in a segment; of those beyond a segment: parts of rows in a row.
DIT_SHARED std::uint32_t fp8_rows(std::uint32_t row) {
  return kSegment / row;
}
DIT_SHARED std::uint32_t fp8_parts(std::uint32_t row) {
  return (row + kSegment - 1) / kSegment;
}

/// How many segments a block makes. Rows of fp8 are never cut but where they are longer than a segment.
DIT_SHARED std::uint32_t segments_of(LaneFormat format, std::uint32_t numbers, std::uint32_t row) {
  if (numbers == 0) {
    return 0;
  }
  if (format != LaneFormat::fp8) {
    return (numbers - 1) / kSegment + 1;
  }
  if (row <= kSegment) {
    return (numbers - 1) / (fp8_rows(row) * row) + 1;
  }
  return numbers / row * fp8_parts(row);
}

template <LaneFormat format>
DIT_SHARED Segment segment_at(const CodeJob& job, std::uint32_t index) {
  const std::uint32_t row = job.place.row.value;
  Segment segment;
  if (format != LaneFormat::fp8) {
    constexpr std::uint32_t kBytes = kTeamLanes * 4 * words_of(format) + (has_scales(format) ? 33 : 0);
    segment.first = index * kSegment;
    segment.code = std::size_t{index} * kBytes;
    segment.count = least_of(kSegment, job.numbers - segment.first);
  } else if (row <= kSegment) {
    const std::uint32_t rows = fp8_rows(row);
    segment.first = index * rows * row;
    segment.code = std::size_t{index} * (rows * (row + 1));
    segment.count = least_of(rows * row, job.numbers - segment.first);
  } else {
    const std::uint32_t whole = quotient(index, job.row_segments);
    const std::uint32_t part = index - whole * job.row_segments.value;
    segment.first = whole * row + part * kSegment;
    segment.code = std::size_t{whole} * (row + job.row_segments.value) + part * (kSegment + 1);
    segment.count = least_of(kSegment, row - part * kSegment);
  }
  return segment;
}

inline JobKind kind_of(LaneFormat format, const CodeJob& job) {
  const bool plain = job.place.plain && job.place.rows == nullptr && job.element != WireElement::fp32 &&
                     (job.memory.value == nullptr || job.memory.wide);
  if (!plain) {
    return JobKind::any;
  }
  if (job.element == WireElement::fp16) {
    return JobKind::plain_fp16;
  }
  return format == LaneFormat::fp8 && fp8_rows(job.place.row.value) < 2 ? JobKind::one_row
                                                                        : JobKind::plain_bf16;
}
inline JobKind kind_of(LaneFormat format, const CodeJobs& jobs) {
  JobKind kind = kind_of(format, jobs.job[0]);
  for (std::uint32_t at = 1; at < jobs.count; ++at) {
    const JobKind own = kind_of(format, jobs.job[at]);
    const bool bf16 = own >= JobKind::plain_bf16 && kind >= JobKind::plain_bf16;
    kind = own == kind ? kind : bf16 ? JobKind::plain_bf16 : JobKind::any;
  }
  return kind;
}
template <JobKind kind>
DIT_SHARED WireElement element_of(const CodeJob& job) {
  return kind == JobKind::any          ? job.element
         : kind == JobKind::plain_fp16 ? WireElement::fp16
                                       : WireElement::bf16;
}

DIT_SHARED bool is_multiple(const void* address, std::uint32_t of) {
  return reinterpret_cast<std::uintptr_t>(address) % of == 0;
}

}  // namespace
}  // namespace dit
