#include "exchange/check_call.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "exchange/select_rows.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

using std::to_string;

// "" when a struct has at least what its first version had.
template <typename Struct>
std::string check_size(const Struct& given, std::size_t least, const char* name, const char* type) {
  if (given.struct_size >= least) return {};
  return std::string(name) + ".struct_size is " + to_string(given.struct_size) + ", expected sizeof(" + type +
         "), " + to_string(least) + " or more";
}

std::string element(const char* array, std::size_t index) {
  return std::string(array) + "[" + to_string(index) + "]";
}

// One direction of a call: the same rules hold for what is sent and what is received.
struct Side {
  const char* buffer_name;
  const char* blocks_name;
  const char* counts_name;
  const char* rows_name;
  const char* strided_name;
  const void* buffer;
  const dit_block* blocks;
  const dit_strided_block* strided;
  bool is_received;
  const std::size_t* counts = nullptr;
  const std::uint32_t* const* rows = nullptr;
};

std::string check_fixed_fields(const dit_exchange_call& call, int channels) {
  if ((call.flags & ~DIT_EXCHANGE_BLOCKING) != 0)
    return "call.flags is " + to_string(call.flags) + ", expected 0 or DIT_EXCHANGE_BLOCKING (1)";
  if (call.memory_kind < DIT_MEMORY_HOST || call.memory_kind > DIT_MEMORY_CUDA)
    return "call.memory_kind is " + to_string(call.memory_kind) +
           ", expected a dit_memory_kind: 0 (host) or 1 (cuda)";
  if (call.device < 0) return "call.device is " + to_string(call.device) + ", expected 0 or more";
  if (call.memory_kind == DIT_MEMORY_HOST && call.device != 0)
    return "call.device is " + to_string(call.device) + ", expected 0 for host memory";
  if (call.channel < 0 || call.channel >= channels)
    return "call.channel is " + to_string(call.channel) + ", expected 0" +
           (channels == 1 ? ": no channel was opened" : " to " + to_string(channels - 1));
  return {};
}

// "" when `bytes` from an offset of the side's buffer are memory, of block `peer` in `array`. Its name is put
// together for errors alone: every exchange comes here.
std::string check_extent(const Side& side, const char* array, std::size_t peer, std::size_t offset,
                         std::size_t bytes) {
  if (side.buffer == nullptr)
    return std::string("call.") + side.buffer_name + " is null, but call." + element(array, peer) + " has " +
           to_string(bytes) + " bytes";
  const auto start = reinterpret_cast<std::uintptr_t>(side.buffer);
  if (offset > UINTPTR_MAX - start || bytes > UINTPTR_MAX - start - offset)
    return "call." + element(array, peer) + " ends past the end of memory: offset " + to_string(offset) +
           ", " + to_string(bytes) + " bytes";
  return {};
}

// Bytes from the first to behind the last one of a block that has some; false when the number is too large.
bool extent_of(const dit_strided_block& block, std::size_t& bytes) {
  std::size_t rows = 0, planes = 0;
  return !__builtin_mul_overflow(block.rows - 1, block.row_stride, &rows) &&
         !__builtin_mul_overflow(block.planes - 1, block.planes > 1 ? block.plane_stride : 0, &planes) &&
         !__builtin_add_overflow(rows, planes, &bytes) &&
         !__builtin_add_overflow(bytes, block.row_bytes, &bytes);
}

// Whether planes lie behind each other, or a row of all of them before the next row.
bool planes_are_apart(const dit_strided_block& block) {
  const auto reaches = [&](std::size_t count, std::size_t stride, std::size_t next) {
    std::size_t reach = 0;
    return !__builtin_mul_overflow(count - 1, stride, &reach) &&
           !__builtin_add_overflow(reach, block.row_bytes, &reach) && reach <= next;
  };
  return block.planes == 1 || block.rows == 1 || reaches(block.rows, block.row_stride, block.plane_stride) ||
         reaches(block.planes, block.plane_stride, block.row_stride);
}

std::string check_strided(const Side& side, std::size_t size) {
  for (std::size_t peer = 0; peer < size; ++peer) {
    const dit_strided_block& block = side.strided[peer];
    if (block.row_bytes == 0 || block.rows == 0 || block.planes == 0) continue;
    const auto name = [&] { return "call." + element(side.strided_name, peer); };
    if (block.row_stride < block.row_bytes)
      return name() + ".row_stride is " + to_string(block.row_stride) + ", expected at least row_bytes, " +
             to_string(block.row_bytes);
    if (block.planes > 1 && block.plane_stride < block.row_bytes)
      return name() + ".plane_stride is " + to_string(block.plane_stride) +
             ", expected at least row_bytes, " + to_string(block.row_bytes);
    if (side.is_received && !planes_are_apart(block))
      return name() + ".plane_stride is " + to_string(block.plane_stride) +
             ", expected planes behind or between " + "rows, as what is received must not overlap";
    std::size_t extent = 0;
    if (!extent_of(block, extent)) return name() + " ends past the end of memory: its extent has no number";
    if (std::string problem = check_extent(side, side.strided_name, peer, block.offset, extent);
        !problem.empty())
      return problem;
  }
  return {};
}

std::string check_blocks(const Side& side, std::size_t size) {
  if (side.strided != nullptr) return check_strided(side, size);
  if (side.blocks == nullptr)
    return std::string("call.") + side.blocks_name + " is null, expected " + to_string(size) + " blocks";
  for (std::size_t peer = 0; peer < size; ++peer) {
    const dit_block& block = side.blocks[peer];
    if (block.bytes == 0) continue;
    if (std::string problem = check_extent(side, side.blocks_name, peer, block.offset, block.bytes);
        !problem.empty())
      return problem;
  }
  return {};
}

// Bytes that are read or written, to look for overlaps.
struct Range {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::size_t peer;
  bool received;
};

void add_ranges(std::vector<Range>& ranges, const Side& side, std::size_t size, bool received) {
  if (side.strided != nullptr) return;  // they may lie in each other's gaps
  const auto start = reinterpret_cast<std::uintptr_t>(side.buffer);
  for (std::size_t peer = 0; peer < size; ++peer) {
    const dit_block& block = side.blocks[peer];
    if (block.bytes > 0)
      ranges.push_back({start + block.offset, start + block.offset + block.bytes, peer, received});
  }
}

// Blocks may be sent to several peers at once, but nothing that is received may overlap anything else.
std::string check_overlaps(const Side& send, const Side& recv, std::size_t size) {
  std::vector<Range> ranges;
  ranges.reserve(2 * size);
  add_ranges(ranges, send, size, false);
  add_ranges(ranges, recv, size, true);
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const auto name = [](const Range& range) {
    return "call." + element(range.received ? "recv_blocks" : "send_blocks", range.peer);
  };
  const Range* furthest = nullptr;           // of all ranges so far
  const Range* furthest_received = nullptr;  // of the received ones so far
  for (const Range& range : ranges) {
    const Range* before = range.received ? furthest : furthest_received;
    if (before != nullptr && before->end > range.begin)
      return name(range) + " overlaps " + name(*before) + " by " +
             to_string(std::min(before->end, range.end) - range.begin) +
             " bytes: what is received must not overlap other blocks";
    if (furthest == nullptr || range.end > furthest->end) furthest = &range;
    if (range.received && (furthest_received == nullptr || range.end > furthest_received->end))
      furthest_received = &range;
  }
  return {};
}

std::string check_rows(const Side& side, std::size_t peer, std::size_t row_bytes) {
  const std::size_t in_block = side.blocks[peer].bytes / row_bytes;
  const std::size_t count = side.counts[peer];
  const std::string rows_name = "selection." + element(side.rows_name, peer);
  if (count > in_block)
    return "selection." + element(side.counts_name, peer) + " is " + to_string(count) +
           ", but the block has " + to_string(in_block) + " rows";
  if (count == 0) return {};
  const std::uint32_t* rows = side.rows[peer];
  if (rows == nullptr) return rows_name + " is null, expected " + to_string(count) + " row numbers";
  for (std::size_t i = 0; i < count; ++i) {
    if (rows[i] >= in_block)
      return element(rows_name.c_str(), i) + " is row " + to_string(rows[i]) + ", but the block has " +
             to_string(in_block) + " rows";
    if (i > 0 && rows[i] <= rows[i - 1])
      return element(rows_name.c_str(), i) + " is row " + to_string(rows[i]) + " after row " +
             to_string(rows[i - 1]) + ", expected ascending row numbers";
  }
  return {};
}

std::string check_selected_side(const Side& side, const dit_row_selection& selection,
                                const ContextPlace& place) {
  const std::string expected = " is null, expected " + to_string(place.size()) + " entries";
  if (side.counts == nullptr) return std::string("selection.") + side.counts_name + expected;
  if (side.rows == nullptr) return std::string("selection.") + side.rows_name + expected;
  for (std::size_t peer = 0; peer < place.size(); ++peer) {
    const std::size_t bytes = side.blocks[peer].bytes;
    if (bytes % selection.row_bytes != 0)
      return "call." + element(side.blocks_name, peer) + " has " + to_string(bytes) +
             " bytes, expected a multiple of selection.row_bytes (" + to_string(selection.row_bytes) + ")";
    const bool whole = static_cast<int>(peer) == place.rank || place.levels[peer] < selection.boundary;
    if (whole) continue;  // the lists are not read
    if (std::string problem = check_rows(side, peer, selection.row_bytes); !problem.empty()) return problem;
  }
  return {};
}

std::string check_selection(Side send, Side recv, const dit_row_selection& selection,
                            const ContextPlace& place) {
  if (std::string problem = check_size(selection, first_selection_bytes, "selection", "dit_row_selection");
      !problem.empty())
    return problem;
  if (selection.row_bytes == 0) return "selection.row_bytes is 0, expected at least 1";
  if (selection.boundary < 0 || selection.boundary > place.level_count)
    return "selection.boundary is " + to_string(selection.boundary) + ", expected a level from 0 to " +
           to_string(place.level_count - 1) + ", or " + to_string(place.level_count) + " to select nowhere";
  send.counts = selection.send_counts;
  send.rows = selection.send_rows;
  recv.counts = selection.recv_counts;
  recv.rows = selection.recv_rows;
  if (std::string problem = check_selected_side(send, selection, place); !problem.empty()) return problem;
  return check_selected_side(recv, selection, place);
}

}  // namespace

std::string check_call(const dit_exchange_call* given, const ContextPlace& place) {
  if (given == nullptr) return "call is null, expected a dit_exchange_call";
  std::string problem = check_size(*given, first_call_bytes, "call", "dit_exchange_call");
  if (!problem.empty()) return problem;
  const dit_exchange_call call = completed(*given);
  const std::size_t size = place.size();
  const Side send{"send",    "send_blocks",    "send_counts",     "send_rows", "send_strided",
                  call.send, call.send_blocks, call.send_strided, false};
  const Side recv{"recv",    "recv_blocks",    "recv_counts",     "recv_rows", "recv_strided",
                  call.recv, call.recv_blocks, call.recv_strided, true};
  problem = check_fixed_fields(call, place.channels);
  if (problem.empty()) problem = check_blocks(send, size);
  if (problem.empty()) problem = check_blocks(recv, size);
  if (!problem.empty()) return problem;

  const auto self = static_cast<std::size_t>(place.rank);
  const std::size_t to_self = block_bytes(call.send_blocks, call.send_strided, self);
  const std::size_t from_self = block_bytes(call.recv_blocks, call.recv_strided, self);
  if (to_self != from_self)
    return "call." + element(call.recv_strided == nullptr ? "recv_blocks" : "recv_strided", self) + " has " +
           to_string(from_self) + " bytes, but this rank sends itself " + to_string(to_self);
  if (call.selection != nullptr && (call.send_strided != nullptr || call.recv_strided != nullptr))
    return "call.selection is given with strided blocks, expected one of them";
  if (problem = check_overlaps(send, recv, size); !problem.empty()) return problem;
  return call.selection == nullptr ? std::string{} : check_selection(send, recv, *call.selection, place);
}

std::string check_not_strided(const dit_exchange_call& call, const char* plugin) {
  if (call.send_strided == nullptr && call.recv_strided == nullptr) return {};
  return std::string("plugin ") + plugin + " takes no strided blocks, call." +
         (call.send_strided != nullptr ? "send_strided" : "recv_strided") + " is not null";
}

std::string check_host_memory(const dit_exchange_call& call, const char* plugin) {
  if (call.memory_kind == DIT_MEMORY_HOST) return {};
  return std::string("plugin ") + plugin + " moves host memory only, call.memory_kind is " +
         to_string(call.memory_kind) + " (" + memory_kind_name(call.memory_kind) + ")";
}

std::string check_open(const dit_open_options* options, dit_context* const* context) {
  if (options == nullptr) return "options is null, expected dit_open_options";
  if (context == nullptr) return "context is null, expected where to put the context";
  if (std::string problem = check_size(*options, first_open_options_bytes, "options", "dit_open_options");
      !problem.empty())
    return problem;
  if (!(options->timeout_seconds >= 0))  // not a number too
    return "options.timeout_seconds is " + to_string(options->timeout_seconds) +
           ", expected 0 (never) or more";
  return {};
}

std::string check_totals(const dit_exchange_totals* totals) {
  if (totals == nullptr) return "totals is null, expected where to put them";
  return check_size(*totals, first_totals_bytes, "totals", "dit_exchange_totals");
}

std::size_t copy_text(const std::string& words, char* text, std::size_t bytes) {
  if (text != nullptr && bytes > 0) {
    const std::size_t copied = std::min(words.size(), bytes - 1);
    std::memcpy(text, words.data(), copied);
    text[copied] = '\0';
  }
  return words.size();
}

std::string call_name(const char* label) {
  return label == nullptr || *label == '\0' ? "the exchange" : "exchange '" + std::string(label) + "'";
}

std::string memory_kind_name(int kind) {
  switch (kind) {
    case DIT_MEMORY_HOST:
      return "host";
    case DIT_MEMORY_CUDA:
      return "cuda";
    default:
      return "kind " + to_string(kind);
  }
}

}  // namespace dit
