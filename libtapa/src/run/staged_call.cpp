#include "run/staged_call.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <string>

#include "run/device_memory.hpp"
#include "run/error.hpp"

namespace tapa {

namespace {

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

/// The data of one element that are not one run, as the runs of equal length that they are known to be.
std::vector<DataRun> regular_runs(const TypeInfo& info) {
  std::vector<DataRun> runs;
  const MPI_Aint first =
      info.stride < 0 ? info.first - info.stride * static_cast<MPI_Aint>(info.runs - 1) : info.first;
  for (std::size_t i = 0; i < info.runs; ++i)
    runs.push_back({first + static_cast<MPI_Aint>(i) * info.stride, info.size / info.runs});
  std::ranges::sort(runs, {}, &DataRun::first);
  return runs;
}

/// The data of one element of any type: what MPI_Unpack writes.
std::vector<DataRun> unpacked_runs(MPI_Datatype type, const TypeInfo& info) {
  MPI_Count first = 0;
  MPI_Count span = 0;
  check_mpi(PMPI_Type_get_true_extent_x(type, &first, &span), "MPI_Type_get_true_extent_x");
  constexpr MPI_Count most = MPI_Count{1} << 30;
  if (span > most || info.size > static_cast<std::size_t>(most)) {
    throw CallError(MPI_ERR_TYPE, "a datatype of " + std::to_string(span) +
                                      " bytes for device memory, expected at most 1 GiB where MPI does not "
                                      "take such memory itself");
  }
  std::vector<std::byte> images[2] = {std::vector<std::byte>(static_cast<std::size_t>(span)),
                                      std::vector(static_cast<std::size_t>(span), std::byte{0xff})};
  const std::vector<std::byte> data(info.size);
  for (std::vector<std::byte>& image : images)
    unpack(data.data(), address_at(image.data(), -static_cast<MPI_Aint>(first)), 1, type, info,
           MPI_COMM_SELF);
  return written_runs(images[0], images[1], static_cast<std::ptrdiff_t>(first));
}

std::vector<DataRun> runs_of(MPI_Datatype type, const TypeInfo& info) {
  if (info.one_run) return {{info.first, info.size}};
  return info.runs != 0 ? regular_runs(info) : unpacked_runs(type, info);
}

const void* first_byte(const Arguments& a, const Side& side, const TypeInfo& info, int peer) {
  return address_at(side.buffer, block_offset(a.form, side, info, peer) + info.first);
}

bool side_on_device(const Arguments& a, const Side& side, int ranks) {
  if (a.form != Form::uniform && ((side.counts == nullptr && side.large_counts == nullptr) ||
                                  (side.displs == nullptr && side.large_displs == nullptr) ||
                                  (a.form == Form::w && side.types == nullptr)))
    return false;
  TypeInfo info;
  // Blocks of a buffer are of one object: if neither the lowest nor the highest is on a device, none is.
  // Those of MPI_BOTTOM may be anywhere.
  const void* low = nullptr;
  const void* high = nullptr;
  for (int peer = 0; peer < (a.form == Form::uniform && !a.neighbours ? 1 : a.blocks(side, ranks)); ++peer) {
    if (side.type_of(peer) == MPI_DATATYPE_NULL) continue;
    if (peer == 0 || a.form == Form::w) info = type_info(side.type_of(peer));
    if (side.count_of(peer) <= 0 || info.size == 0 || a.leads_nowhere(side, peer)) continue;
    const void* const first = first_byte(a, side, info, peer);
    if (side.buffer == nullptr && is_device_memory(first)) return true;
    if (low == nullptr || number(first) < number(low)) low = first;
    if (number(first) > number(high)) high = first;
  }
  if (low == nullptr || side.buffer == nullptr) return false;
  return is_device_memory(low) || (high != low && is_device_memory(high));
}

}  // namespace

const char* buffer_on_device(const Arguments& a, int ranks) {
  if (!gpu_in_use() || a.recv.buffer == MPI_IN_PLACE) return nullptr;
  if (side_on_device(a, a.recv, ranks)) return "recvbuf";
  return !a.in_place() && side_on_device(a, a.send, ranks) ? "sendbuf" : nullptr;
}

/// The data of a block.
struct StagedCall::Placed {
  std::byte* origin;
  std::vector<DataRows> rows;
  bool dense;
  CudaMemory memory;
};

std::vector<StagedCall::Placed> StagedCall::place(const Arguments& a, const Side& side, int ranks,
                                                  CudaDriver& driver) {
  std::vector<Placed> blocks;
  TypeInfo info;
  std::vector<DataRun> runs;
  for (int peer = 0; peer < a.blocks(side, ranks); ++peer) {
    if (peer == 0 || a.form == Form::w) {
      info = type_info(side.type_of(peer));
      runs = runs_of(side.type_of(peer), info);
    }
    const MPI_Count count = side.count_of(peer);
    if (block_bytes(info, count) == 0 || a.leads_nowhere(side, peer)) continue;
    Placed block{address_at(side.buffer, block_offset(a.form, side, info, peer)),
                 rows_of(runs, info.extent, static_cast<std::size_t>(count)),
                 info.dense(count),
                 {}};
    const void* const first = first_byte(a, side, info, peer);
    const bool known = !blocks.empty() && blocks.back().memory.holds(first);
    block.memory = known ? blocks.back().memory : driver.memory(first);
    if (!known) driver.settle(block.memory);
    blocks.push_back(std::move(block));
  }
  return blocks;
}

StagedCall::StagedCall(const Arguments& arguments, int ranks, CudaDriver& driver)
    : driver_(driver), staged_(arguments), reads_recv_(arguments.in_place()) {
  std::vector<Placed> received = place(arguments, arguments.recv, ranks, driver);
  if (arguments.form == Form::uniform && !arguments.in_place() && !arguments.neighbours)
    cut_to_sent(received);
  staged_.recv.buffer = make_image(received, arguments.recv.buffer, recv_);
  if (arguments.in_place()) return;
  staged_.send.buffer =
      make_image(place(arguments, arguments.send, ranks, driver), arguments.send.buffer, send_);
}

/// MPI lets a receiver expect more than is sent: the rest of its memory stays as it is.
void StagedCall::cut_to_sent(std::vector<Placed>& blocks) {
  const std::size_t sent = block_bytes(type_info(staged_.send.type), staged_.send.count);
  const std::size_t expected = block_bytes(type_info(staged_.recv.type), staged_.recv.count);
  if (sent >= expected) return;
  for (Placed& block : blocks) {
    if (block.dense) {
      block.rows[0].bytes = sent;
    } else {
      reads_recv_ = true;
    }
  }
  if (sent == 0) blocks.clear();
}

/// Returns the address that stands for `buffer` in the image; the buffer itself where nothing is on a device.
const void* StagedCall::make_image(const std::vector<Placed>& blocks, const void* buffer, Image& image) {
  const auto on_device =
      std::ranges::find_if(blocks, [](const Placed& block) { return block.memory.on_device; });
  if (on_device == blocks.end()) return buffer;
  std::uintptr_t low = std::numeric_limits<std::uintptr_t>::max();
  std::uintptr_t high = 0;
  std::size_t used = 0;
  for (const Placed& block : blocks) {
    for (const DataRows& r : block.rows) {
      const std::uintptr_t first = number(address_at(block.origin, r.first));
      low = std::min(low, first);
      high = std::max(high, first + (r.rows - 1) * r.pitch + r.bytes);
      used += r.bytes * r.rows;
    }
  }
  image.memory = StagingMemory(driver_, on_device->memory, high - low, used);
  for (const Placed& block : blocks) {
    for (const DataRows& r : block.rows) {
      std::byte* const there = address_at(block.origin, r.first);
      image.pieces.push_back(
          {there, image.memory.get() + (number(there) - low), r.bytes, r.rows, r.pitch, block.memory});
    }
  }
  return address_at(image.memory.get(), static_cast<MPI_Aint>(number(buffer) - low));
}

void StagedCall::fetch() {
  copy(send_, false);
  if (reads_recv_) copy(recv_, false);
}

void StagedCall::put_back() {
  copy(recv_, true);
}

void StagedCall::copy(const Image& image, bool to_device) {
  const auto same = [](const CudaMemory& a, const CudaMemory& b) {
    return a.context == b.context && a.device == b.device;
  };
  std::vector<CudaMemory> waited;
  for (const Piece& p : image.pieces) {
    std::byte* const to = to_device ? p.device : p.host;
    const std::byte* const from = to_device ? p.host : p.device;
    if (!p.memory.on_device) {
      for (std::size_t row = 0; row < p.rows; ++row)
        std::memcpy(to + row * p.pitch, from + row * p.pitch, p.bytes);
      continue;
    }
    driver_.copy(p.memory, {to, p.pitch, from, p.pitch, p.bytes, p.rows});
    if (std::ranges::none_of(waited, [&](const CudaMemory& m) { return same(m, p.memory); }))
      waited.push_back(p.memory);
  }
  for (const CudaMemory& memory : waited) driver_.wait(memory);
}

int StagedCall::try_copy(void (StagedCall::*way)(), std::string& message) noexcept {
  try {
    (this->*way)();
    return MPI_SUCCESS;
  } catch (const std::exception& e) {
    keep_words(message, e.what());
    return MPI_ERR_OTHER;
  }
}

}  // namespace tapa
