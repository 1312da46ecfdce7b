#include "device/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "device/device_error.hpp"
#include "device/failure.hpp"
#include "device/kernel.hpp"

namespace tapa::device {

namespace {

/// Where a process runs.
struct Place {
  std::array<char, 64> boot;  ///< of the machine since its start
  pid_t process;
};

Place place_of_process() {
  Place place{};
  std::ifstream("/proc/sys/kernel/random/boot_id").getline(place.boot.data(), place.boot.size());
  place.process = getpid();
  return place;
}

double default_if_zero(double value, double otherwise) {
  return value == 0 ? otherwise : value;
}

void check_options(const TAPA_Device_options& options) {
  if (!(options.timeout >= 0) || options.timeout > 1e9) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG,
                      "options.timeout is " + short_text(options.timeout) + ", expected 0 to 1e9 seconds");
  }
  if (options.channels < 0 || options.channels > 64) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG,
                      "options.channels is " + std::to_string(options.channels) + ", expected 0 to 64");
  }
  if (options.line_bytes > (std::size_t{16} << 20)) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "options.line_bytes is " + std::to_string(options.line_bytes) +
                                               ", expected at most 16777216");
  }
}

}  // namespace

Communicator::Communicator(const Agreement& agreement, const TAPA_Device_options& options)
    : agreement_(agreement) {
  agreement_.together([&] {
    check_options(options);
    check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
  });
  agree_on_place();
  agree_on_tuning(options);
  map_regions();
  agreement_.together([&] {
    windows_.emplace(agreement_);
    side_streams_.emplace(size() - 1);
    check_cuda(load_kernels(), "loading the kernels");
  });
  head_.rank = agreement_.rank();
  head_.windows = windows_->table();
  head_.failure = static_cast<Failure*>(failure_->get());
  complete_ = true;
}

void Communicator::agree_on_place() {
  const std::vector<Place> places = agreement_.gather(place_of_process());
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    if (places[rank].boot != places[0].boot) {
      throw DeviceError(
          TAPA_DEVICE_ERR_UNSUPPORTED,
          "rank " + std::to_string(rank) + " is on another node than rank 0, expected one node");
    }
    for (std::size_t other = 0; other < rank; ++other) {
      if (places[rank].process != places[other].process) continue;
      throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "ranks " + std::to_string(other) + " and " +
                                                         std::to_string(rank) +
                                                         " are one process, expected one for each rank");
    }
  }
}

void Communicator::agree_on_tuning(const TAPA_Device_options& options) {
  const TAPA_Device_options agreed = agreement_.gather(options)[0];
  timeout_ = default_if_zero(agreed.timeout, 60);
  head_.timeout = static_cast<Word>(timeout_ * 1e9);
  Region& region = head_.region;
  region.size = agreement_.size();
  if (agreed.line_bytes != 0) region.tuning.line_limit = agreed.line_bytes;
  copy_from_ = agreed.copy_bytes != 0 ? agreed.copy_bytes : std::size_t{32} << 20;
  // All thread blocks of a call fit on a GPU of today at once. Those of a second communicator need not: see
  // team_place().
  const int automatic = std::clamp(96 / region.size, 8, 48);
  region.tuning.bulk_channels = agreed.channels != 0 ? agreed.channels : automatic;
  if (region.tuning.line_channels > region.tuning.bulk_channels) {
    region.tuning.line_channels = region.tuning.bulk_channels;
  }
}

void Communicator::map_regions() {
  Export mine{};
  agreement_.together([&] {
    failure_.emplace(sizeof(Failure));
    region_.emplace(head_.region.bytes());
    const Word first = 1;
    PrivateStream().copy(&RegionView(region_->get(), head_.region).local().sequence, &first, sizeof(first));
    mine = export_memory(region_->get());
    if (!mine.shared) {
      throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                        "CUDA gives no handle of device memory to other processes");
    }
  });
  const std::vector<Export> exports = agreement_.gather(mine);
  imports_.resize(exports.size());
  agreement_.together([&] {
    for (int rank = 0; rank < size(); ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      if (rank != agreement_.rank()) imports_[index].emplace(exports[index]);
      head_.regions[rank] = rank == agreement_.rank() ? region_->get() : imports_[index]->get();
    }
  });
}

Communicator::~Communicator() {
  try {
    const CurrentDevice current(device_);
    (void)cudaDeviceSynchronize();
    if (!complete_) return;
    int rank = -1;
    try {
      check_failure(rank);
    } catch (const DeviceError&) {
      region_->abandon();  // who did not arrive may still have it open
      return;
    }
    windows_->close();
    imports_.clear();
    agreement_.meet();  // memory is freed when nobody has it mapped
  } catch (const DeviceError& error) {
    std::fprintf(stderr, "tapa: freeing a device communicator: %s\n", error.what());
  }
}

void Communicator::check_failure() const {
  int rank = -1;
  check_failure(rank);
}

void Communicator::check_failure(int& rank) const {
  throw_failure(*static_cast<const volatile Failure*>(failure_->get()), size(), timeout_, rank);
}

}  // namespace tapa::device
