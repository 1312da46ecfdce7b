#include "device/windows.hpp"

#include <array>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>

#include "device/device_error.hpp"
#include "device/driver_memory.hpp"

namespace tapa::device {

namespace {

constexpr std::size_t kRowBytes = kMaxRanks * sizeof(std::byte*);

void check_memory(const void* memory, std::size_t bytes) {
  if ((memory == nullptr) == (bytes == 0)) return;
  throw DeviceError(TAPA_DEVICE_ERR_ARG, memory == nullptr
                                             ? "buffer is null and bytes is " + std::to_string(bytes) +
                                                   ", expected 0 bytes with a null buffer"
                                             : std::string("bytes is 0, expected the length of buffer"));
}

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

Allocations allocations_behind(const void* memory, std::size_t bytes) {
  if (bytes == 0) return {};
  return {segments_of(address_of(memory), bytes, allocation_at), allocation_id};
}

DeviceError freed(int window) {
  return {TAPA_DEVICE_ERR_WINDOW, "the memory of window " + std::to_string(window) +
                                      " was freed, expected TAPA_Device_deregister before that"};
}

}  // namespace

Windows::Windows(const Agreement& agreement)
    : agreement_(agreement), table_(static_cast<std::size_t>(kWindows) * kRowBytes) {
  free_.resize(kWindows);  // for good: numbers go and come without memory
  std::iota(free_.begin(), free_.end(), 0);
}

int Windows::add(void* memory, std::size_t bytes, int flags) {
  Offer mine;
  agreement_.together([&] {
    check_memory(memory, bytes);
    if (free_.empty()) {
      throw DeviceError(TAPA_DEVICE_ERR_ARG,
                        std::to_string(kWindows) + " registrations exist, expected fewer: deregister some");
    }
    if (memory != nullptr) mine = export_memory(memory, bytes);
  });
  std::vector<bool> exists = check_alike(bytes, flags);
  const std::vector<Export> exports = agreement_.gather(mine.how);
  std::vector<std::optional<Import>> imports =
      import_all(exports, post_handles(agreement_, std::move(mine.handles)));

  // A rank's part can be used when every other rank has it mapped.
  std::array<bool, kMaxRanks> mapped{};
  for (std::size_t rank = 0; rank < imports.size(); ++rank) mapped[rank] = imports[rank].has_value();
  const auto all = agreement_.gather(mapped);
  const auto own = static_cast<std::size_t>(agreement_.rank());
  bool direct = mine.how.by != Export::By::nothing;
  bool reachable = true;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    direct = direct && (rank == own || all[rank][own]);
    for (std::size_t of = 0; of < all.size(); ++of) {
      reachable = reachable && (rank == of || !exists[of] || all[rank][of]);
    }
  }

  std::vector<std::byte*> bases(imports.size(), nullptr);
  for (std::size_t rank = 0; rank < imports.size(); ++rank) {
    if (imports[rank]) bases[rank] = imports[rank]->get();
  }
  const int window = free_.front();
  const bool symmetric = reachable && memory != nullptr && (flags & TAPA_DEVICE_SYMMETRIC) != 0;
  const auto failed = agreement_.failure_of([&] {
    windows_.emplace(window, Window{static_cast<std::byte*>(memory), bytes, allocations_behind(memory, bytes),
                                    direct, reachable, symmetric, std::move(exists), std::move(imports)});
    publish(window, bases);
  });
  if (failed) {
    windows_.erase(window);
    agreement_.meet();  // as in remove()
    throw CommonError(*failed);
  }
  free_.erase(free_.begin());
  if (memory != nullptr && !direct && !warned_) {
    std::fprintf(
        stderr,
        "tapa: rank %d: registered memory cannot be shared with all ranks; blocks pass through staging\n",
        agreement_.name(agreement_.rank()));
    warned_ = true;
  }
  return window;
}

std::vector<bool> Windows::check_alike(std::size_t bytes, int flags) const {
  struct Rules {
    std::size_t bytes;
    int flags;
  };
  const std::vector<Rules> all = agreement_.gather_everywhere(Rules{bytes, flags});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string who = " of rank " + std::to_string(rank);
    if (all[rank].flags != all[0].flags || (all[rank].flags & ~TAPA_DEVICE_SYMMETRIC) != 0) {
      throw DeviceError(TAPA_DEVICE_ERR_ARG, "flags" + who + " is " + std::to_string(all[rank].flags) +
                                                 ", expected 0 or TAPA_DEVICE_SYMMETRIC on all ranks");
    }
    if (flags != 0 && all[rank].bytes != all[0].bytes) {
      throw DeviceError(TAPA_DEVICE_ERR_ARG, "bytes" + who + " is " + std::to_string(all[rank].bytes) +
                                                 ", expected " + std::to_string(all[0].bytes) +
                                                 " as on rank 0, for a symmetric registration");
    }
  }
  std::vector<bool> exists;
  for (int rank = 0; rank < agreement_.size(); ++rank) {
    exists.push_back(all[static_cast<std::size_t>(agreement_.name(rank))].bytes != 0);
  }
  return exists;
}

std::vector<std::optional<Import>> Windows::import_all(const std::vector<Export>& exports,
                                                       const std::vector<Delivery>& deliveries) const {
  std::vector<std::optional<Import>> imports(exports.size());
  for (std::size_t rank = 0; rank < exports.size(); ++rank) {
    if (static_cast<int>(rank) == agreement_.rank() || exports[rank].by == Export::By::nothing) continue;
    try {
      imports[rank].emplace(exports[rank], deliveries[rank].handles);
    } catch (const DeviceError&) {
      imports[rank].reset();  // its owner learns that this rank does not have it
    }
    if (!deliveries[rank].missing.empty()) {
      std::fprintf(stderr, "tapa: rank %d: handles of rank %d's memory did not arrive: %s\n",
                   agreement_.name(agreement_.rank()), agreement_.name(static_cast<int>(rank)),
                   deliveries[rank].missing.c_str());
    }
  }
  return imports;
}

void Windows::publish(int window, const std::vector<std::byte*>& bases) {
  std::array<std::byte*, kMaxRanks> row{};
  std::copy(bases.begin(), bases.end(), row.begin());
  stream_.copy(table_.get() + static_cast<std::size_t>(window) * kRowBytes, row.data(), kRowBytes);
}

void Windows::remove(int window) {
  agreement_.together([&] { (void)at(window); });
  for (const int other : agreement_.gather_everywhere(window)) {
    if (other == window) continue;
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "window is " + std::to_string(window) + " here and " +
                                               std::to_string(other) + " on another rank, expected the same");
  }
  agreement_.together([&] { publish(window, {}); });
  windows_.erase(window);
  free_.push_back(window);
  agreement_.meet();  // memory may be freed once nobody has it mapped
}

const Windows::Window& Windows::at(int window) const {
  const auto found = windows_.find(window);
  if (found != windows_.end()) return found->second;
  throw DeviceError(TAPA_DEVICE_ERR_ARG,
                    "window is " + std::to_string(window) + ", expected one of TAPA_Device_register");
}

bool Windows::is_direct(int window) const {
  return at(window).direct;
}

Target Windows::Finder::find(const std::byte* memory, Word bytes) {
  std::optional<int> lost;
  for (const auto& [number, window] : windows_.windows_) {
    if (!window.direct || memory < window.begin) continue;
    const auto offset = static_cast<Word>(memory - window.begin);
    if (offset > window.bytes || bytes > window.bytes - offset) continue;
    if (window.allocations.hold(address_of(memory), bytes, allocation_id, asked_)) {
      return {static_cast<Word>(number), offset};
    }
    if (!lost || window.symmetric) lost = number;
  }
  if (!lost) return {};
  if (windows_.at(*lost).symmetric) throw freed(*lost);
  windows_.warn_of_freed(*lost);
  return {};
}

void Windows::warn_of_freed(int window) {
  if (warned_of_freed_) return;
  std::fprintf(
      stderr,
      "tapa: rank %d: the memory of window %d was freed without TAPA_Device_deregister; blocks to what "
      "has its addresses now pass through staging\n",
      agreement_.name(agreement_.rank()), window);
  warned_of_freed_ = true;
}

void Windows::require_unfreed(int window) const {
  const Window& found = at(window);
  Allocations::Asked asked;
  if (!found.allocations.hold(address_of(found.begin), found.bytes, allocation_id, asked))
    throw freed(window);
}

std::byte* Windows::symmetric_base(Word window, int rank) const {
  const auto found = windows_.find(static_cast<int>(window));
  if (found == windows_.end() || !found->second.symmetric) return nullptr;
  if (rank == agreement_.rank()) return found->second.begin;
  return found->second.imports[static_cast<std::size_t>(rank)]->get();
}

void Windows::require_reachable(int window) const {
  if (at(window).reachable) return;
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                    "window is " + std::to_string(window) +
                        ", with memory that cannot be shared with all ranks, expected memory of cudaMalloc");
}

std::byte* Windows::memory_of(int window, int rank) const {
  const Window& found = at(window);
  if (rank < 0 || rank >= agreement_.size()) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "rank is " + std::to_string(rank) + ", expected 0 to " +
                                               std::to_string(agreement_.size() - 1));
  }
  const auto index = static_cast<std::size_t>(rank);
  if (!found.exists[index]) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "rank " + std::to_string(rank) + " has no memory in window " +
                                               std::to_string(window) + ", expected one that has");
  }
  if (rank == agreement_.rank()) return found.begin;
  if (found.imports[index]) return found.imports[index]->get();
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "window " + std::to_string(window) + ": memory of rank " +
                                                     std::to_string(rank) +
                                                     " cannot be shared, expected memory of cudaMalloc");
}

void Windows::close() {
  windows_.clear();
}

}  // namespace tapa::device
