#include "wire/device/block_jobs.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace dit {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();

std::uint32_t counted(const char* what, std::int64_t number) {
  if (number < 0 || number > kMost) {
    throw std::length_error("a block of " + std::to_string(number) + " " + what +
                            " on a device: expected less than 2^32");
  }
  return static_cast<std::uint32_t>(number);
}

std::vector<RowsAt> dense_runs(const PeerBlock& block) {
  std::vector<RowsAt> runs;
  std::int64_t row = 0;
  for (const RowRun& run : block.runs) {
    if (run.rows > 0) {
      runs.push_back({static_cast<std::uint32_t>(row), run.offset, run.stride});
    }
    row += run.rows;
  }
  return runs;
}

// A run of a dense tensor goes on from sample to sample; with strides it does not.
std::vector<RowsAt> strided_runs(const PeerBlock& block, const TensorShape& shape,
                                 const TensorStrides& strides) {
  std::vector<RowsAt> runs;
  std::int64_t first = 0;
  const std::int64_t width = shape.row_elements();
  for (const RowRun& run : block.runs) {
    if (run.rows > 0 && (block.row_elements % shape.head_dim != 0 || run.offset % shape.head_dim != 0 ||
                         (run.rows > 1 && run.stride != width))) {
      throw std::invalid_argument("a block is not of whole heads of the tensor's rows");
    }
    std::int64_t row = run.rows > 0 ? run.offset / width : 0;  // of all samples
    for (std::int64_t left = run.rows; left > 0;) {
      const std::int64_t rows = std::min(left, shape.rows - row % shape.rows);
      runs.push_back({static_cast<std::uint32_t>(first),
                      row / shape.rows * strides.batch + row % shape.rows * strides.row +
                          run.offset % width / shape.head_dim * strides.head,
                      strides.row});
      first += rows;
      row += rows;
      left -= rows;
    }
  }
  return runs;
}

/// Runs of rows `begin` to `end`, numbered from `begin` on.
std::vector<RowsAt> runs_of(const std::vector<RowsAt>& runs, std::uint32_t begin, std::uint32_t end) {
  std::vector<RowsAt> part;
  for (std::size_t i = 0; i < runs.size() && runs[i].first < end; ++i) {
    const bool ends_before = i + 1 < runs.size() && runs[i + 1].first <= begin;
    if (!ends_before) {
      const std::uint32_t first = std::max(runs[i].first, begin);
      part.push_back(
          {first - begin, runs[i].offset + (first - runs[i].first) * runs[i].stride, runs[i].stride});
    }
  }
  return part;
}

/// Whether each `rows` rows lie as the first ones do, at equal distances.
bool repeat(const std::vector<RowsAt>& runs, std::uint32_t rows, std::uint32_t all) {
  const std::vector<RowsAt> first = runs_of(runs, 0, rows);
  const std::int64_t distance = runs_of(runs, rows, 2 * rows)[0].offset - first[0].offset;
  if (first.size() > kMostRuns) {
    return false;
  }
  for (std::uint32_t begin = rows; begin < all; begin += rows) {
    const std::vector<RowsAt> next = runs_of(runs, begin, begin + rows);
    const std::int64_t moved = begin / rows * distance;
    const bool alike = std::equal(
        first.begin(), first.end(), next.begin(), next.end(), [&](const RowsAt& a, const RowsAt& b) {
          return a.first == b.first && a.stride == b.stride && a.offset + moved == b.offset;
        });
    if (!alike) {
      return false;
    }
  }
  return true;
}

void set_runs(BlockPlace& place, std::vector<RowsAt> runs, std::uint32_t rows) {
  if (runs.size() > kMostRuns) {
    std::uint32_t samples = 2;
    while (samples <= rows && (rows % samples != 0 || !repeat(runs, rows / samples, rows))) {
      ++samples;
    }
    if (samples > rows) {
      throw std::length_error("a block of " + std::to_string(runs.size()) +
                              " runs of rows on a device: expected at most " + std::to_string(kMostRuns) +
                              ", or that they repeat");
    }
    const std::uint32_t of_sample = rows / samples;
    place.samples = samples;
    place.sample_rows = divisor(of_sample);
    place.sample_stride = runs_of(runs, of_sample, 2 * of_sample)[0].offset - runs[0].offset;
    runs = runs_of(runs, 0, of_sample);
  }
  place.run_count = static_cast<std::uint32_t>(runs.size());
  std::copy(runs.begin(), runs.end(), place.runs);
}

bool is_wide(const BlockPlace& place, std::size_t element_bytes) {
  const auto in_unit = static_cast<std::int64_t>(sizeof(Unit) / element_bytes);
  bool wide = is_multiple(place.tensor, sizeof(Unit)) && place.row.value % in_unit == 0 &&
              place.piece.value % in_unit == 0 && place.piece_stride % in_unit == 0 &&
              place.sample_stride % in_unit == 0;
  for (std::uint32_t i = 0; i < place.run_count; ++i) {
    wide = wide && place.runs[i].offset % in_unit == 0 && place.runs[i].stride % in_unit == 0;
  }
  return wide;
}

/// Makes a place plain where it can be.
void set_plain(BlockPlace& place) {
  const RowsAt& low = place.runs[0];
  const RowsAt& high = place.runs[1];
  const bool two = place.run_count == 2;
  place.second = two ? high.first : std::numeric_limits<std::uint32_t>::max();
  place.jump = two ? high.offset - low.offset - high.first * low.stride : 0;
  // Bytes from a number to another one of kShort are counted in 32 bits.
  constexpr std::int64_t kFar = std::int64_t{1} << 28;
  const std::int64_t rows = kShort / place.row.value + 2;
  const bool near = rows * std::abs(low.stride) < kFar && std::abs(place.jump) < kFar;
  place.plain = place.wide && near && place.piece.value == place.row.value && place.row.value > 1 &&
                place.row.value <= kMostPlainRow && place.samples == 1 && place.run_count <= 2 &&
                (!two || high.stride == low.stride);
}

}  // namespace

LaneFormat lane_format(WireFormat format, WireElement element) {
  switch (format) {
    case WireFormat::full:
      return static_cast<LaneFormat>(element);
    case WireFormat::bf16:
      return LaneFormat::bf16;
    default:
      return static_cast<LaneFormat>(static_cast<int>(LaneFormat::fp8) + static_cast<int>(format) -
                                     static_cast<int>(WireFormat::fp8));
  }
}

BlockPlace place_of(const PeerBlock& block, WireElement element, std::byte* tensor, const TensorShape& shape,
                    const TensorStrides& strides) {
  BlockPlace place;
  place.tensor = tensor;
  static_cast<void>(counted("numbers", block.elements()));
  if (block.elements() == 0) {
    return place;
  }
  place.row = divisor(counted("numbers in a row", block.row_elements));
  place.piece = place.row;
  const bool dense = is_dense(shape, strides);
  if (!dense && strides.head != shape.head_dim) {
    place.piece = divisor(counted("numbers in a head", shape.head_dim));
    place.piece_stride = strides.head;
  }
  set_runs(place, dense ? dense_runs(block) : strided_runs(block, shape, strides),
           counted("rows", block.rows()));
  place.wide = is_wide(place, bytes_of(element));
  set_plain(place);
  return place;
}

CodeJob job_of(WireFormat format, WireElement element, const BlockPlace& place, std::int64_t rows,
               std::uint8_t* code) {
  CodeJob job;
  job.place = place;
  job.code = code;
  job.element = element;
  job.numbers = counted("numbers", rows * place.row.value);
  job.segments = segments_of(lane_format(format, element), job.numbers, place.row.value);
  job.row_segments = divisor(fp8_parts(place.row.value));
  job.row_code = divisor(place.row.value + 1);
  return job;
}

void give_memory(CodeJob& job, const ReferenceParts& reference, float momentum, bool residual) {
  JobMemory& memory = job.memory;
  memory.value = reference.value;
  memory.digits = reference.digits;
  memory.change = reference.change;
  memory.momentum = momentum;
  memory.residual = residual;
  memory.wide = is_multiple(memory.value, sizeof(Unit)) && is_multiple(memory.digits, sizeof(Unit)) &&
                is_multiple(memory.change, sizeof(Unit)) &&
                (job.place.rows == nullptr || job.place.row.value % sizeof(Unit) == 0);
}

}  // namespace dit
