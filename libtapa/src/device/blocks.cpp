#include "device/blocks.hpp"

#include <string>

#include "device/device_error.hpp"

namespace tapa::device {

namespace {

/// Says of one entry's member what is wrong with it.
class Entry {
 public:
  Entry(const char* name, int peer) : name_(std::string(name) + "[" + std::to_string(peer) + "]") {}
  [[noreturn]] void refuse(const char* member, std::size_t value, const std::string& expected) const {
    throw DeviceError(TAPA_DEVICE_ERR_ARG,
                      name_ + "." + member + " is " + std::to_string(value) + ", expected " + expected);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, name_ + what);
  }

 private:
  std::string name_;
};

/// Adds `count` * `bytes`; false when the sum is no address.
bool add(std::size_t& sum, std::size_t count, std::size_t bytes) {
  constexpr std::size_t kAddresses = std::size_t{1} << 48;
  std::size_t product = 0;
  return !__builtin_mul_overflow(count, bytes, &product) && !__builtin_add_overflow(sum, product, &sum) &&
         sum <= kAddresses;
}

void check_length(const Entry& entry, const TAPA_Device_block& block) {
  std::size_t rows = 0;
  std::size_t bytes = 0;
  if (block.planes > kMostPlanes) {
    entry.refuse("planes", block.planes, "at most " + std::to_string(kMostPlanes));
  }
  if (__builtin_mul_overflow(block.rows, block.planes, &rows) ||
      __builtin_mul_overflow(rows, block.row_bytes, &bytes) || bytes > kLongestStrided) {
    entry.refuse(" has " + std::to_string(block.planes) + " planes of " + std::to_string(block.rows) +
                 " rows of " + std::to_string(block.row_bytes) + " bytes, expected at most " +
                 std::to_string(kLongestStrided) + " bytes");
  }
}

void check_extent(const Entry& entry, const TAPA_Device_block& block) {
  std::size_t end = 0;
  if (add(end, 1, block.offset) && add(end, block.planes - 1, block.plane_stride) &&
      add(end, block.rows - 1, block.row_stride) && add(end, 1, block.row_bytes)) {
    return;
  }
  entry.refuse(" ends more than 2^48 bytes behind the buffer's begin: offset " +
               std::to_string(block.offset) + ", row_stride " + std::to_string(block.row_stride) +
               ", plane_stride " + std::to_string(block.plane_stride));
}

void check_overlap(const Entry& entry, const TAPA_Device_block& block) {
  const std::string expected = "at least row_bytes, " + std::to_string(block.row_bytes);
  if (block.rows > 1 && block.row_stride < block.row_bytes) {
    entry.refuse("row_stride", block.row_stride, expected);
  }
  if (block.planes > 1 && block.plane_stride < block.row_bytes) {
    entry.refuse("plane_stride", block.plane_stride, expected);
  }
}

}  // namespace

Strides strides_of(const char* name, int peer, const TAPA_Device_block& block, bool receives) {
  if (block.planes == 0 || block.rows == 0 || block.row_bytes == 0) return {};
  const Entry entry(name, peer);
  check_length(entry, block);
  check_extent(entry, block);
  if (receives) check_overlap(entry, block);
  return collapsed({block.row_bytes, block.rows, block.row_stride, block.planes, block.plane_stride});
}

StridedLayout strided_layout(int rank, int size, const TAPA_Device_block* send,
                             const TAPA_Device_block* receive) {
  StridedLayout layout;
  for (int peer = 0; peer < size; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    layout.send[index] = {send[peer].offset, strides_of("send", peer, send[peer], false)};
    layout.receive[index] = {receive[peer].offset, strides_of("recv", peer, receive[peer], true)};
  }
  const auto own = static_cast<std::size_t>(rank);
  const Word sent = bytes_of(layout.send[own].strides);
  const Word received = bytes_of(layout.receive[own].strides);
  if (sent == received) return layout;
  const std::string entry = "[" + std::to_string(rank) + "]";
  throw DeviceError(TAPA_DEVICE_ERR_ARG, "send" + entry + " has " + std::to_string(sent) + " bytes and recv" +
                                             entry + " has " + std::to_string(received) +
                                             ", expected the same for this rank's own block");
}

std::size_t total_bytes(const std::array<PlacedBlock, kMaxRanks>& side) {
  std::size_t sum = 0;
  for (const PlacedBlock& block : side) sum += bytes_of(block.strides);
  return sum;
}

}  // namespace tapa::device
