#include "device/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "device/current_device.hpp"
#include "device/device_error.hpp"
#include "device/failure.hpp"
#include "device/kernel.hpp"
#include "device/teardown.hpp"

namespace tapa::device {

namespace {

double default_if_zero(double value, double otherwise) {
  return value == 0 ? otherwise : value;
}

void check_options(const TAPA_Device_options& options) {
  if (!(options.timeout >= 0) || options.timeout > 1e9) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG,
                      "options.timeout is " + short_text(options.timeout) + ", expected 0 to 1e9 seconds");
  }
  if (options.channels < 0 || options.channels > kMostChannels) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "options.channels is " + std::to_string(options.channels) +
                                               ", expected 0 to " + std::to_string(kMostChannels));
  }
  if (options.wire < TAPA_DEVICE_WIRE_AUTO || options.wire > TAPA_DEVICE_WIRE_HOST) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG,
                      "options.wire is " + std::to_string(options.wire) + ", expected a TAPA_DEVICE_WIRE");
  }
  if (options.line_bytes > (std::size_t{16} << 20)) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "options.line_bytes is " + std::to_string(options.line_bytes) +
                                               ", expected at most 16777216");
  }
}

}  // namespace

Communicator::Communicator(const Agreement& agreement, const TAPA_Device_options& options)
    : agreement_(agreement) {
  for (int each = 0; each < size(); ++each) names_.push_back(agreement_.name(each));
  int multiprocessors = 0;
  agreement_.together([&] {
    check_options(options);
    check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
    multiprocessors = multiprocessors_here();
  });
  agree_on_tuning(options, multiprocessors);
  map_regions();
  agreement_.together([&] {
    windows_.emplace(agreement_);
    side_streams_.emplace(2);  // the copies to other ranks, and the wait for theirs
    check_cuda(load_kernels(), "loading the kernels");
  });
  head_.rank = agreement_.rank();
  head_.windows = windows_->table();
  head_.failure = static_cast<Failure*>(failure_->get());
  complete_ = true;
}

void Communicator::agree_on_tuning(const TAPA_Device_options& options, int multiprocessors) {
  const TAPA_Device_options agreed = agreement_.gather(options)[0];
  timeout_ = default_if_zero(agreed.timeout, 60);
  head_.timeout = static_cast<Word>(timeout_ * 1e9);
  Region& region = head_.region;
  region.size = agreement_.size();
  if (agreed.line_bytes != 0) region.tuning.line_limit = agreed.line_bytes;
  copy_from_ = agreed.copy_bytes != 0 ? agreed.copy_bytes : std::size_t{32} << 20;
  const std::vector<int> all = agreement_.gather(multiprocessors);
  const int automatic = bulk_channels_on(*std::min_element(all.begin(), all.end()), region.size);
  region.tuning.bulk_channels = agreed.channels != 0 ? agreed.channels : automatic;
  if (region.tuning.line_channels > region.tuning.bulk_channels) {
    region.tuning.line_channels = region.tuning.bulk_channels;
  }
}

void Communicator::map_regions() {
  Export mine{};
  agreement_.together([&] {
    failure_.emplace(sizeof(Failure));  // lasting: programs ask for errors after they have reset the device
    region_.emplace(head_.region.bytes());
    begin_region();
    mine = export_memory(region_->get(), head_.region.bytes()).how;
    if (mine.by != Export::By::ipc) {
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

void Communicator::begin_region() {
  const Word first = 1;
  PrivateStream().copy(&RegionView(region_->get(), head_.region).local().sequence, &first, sizeof(first));
}

// Others write into this rank's region, and it into theirs, until all their devices have done what there was.
// Nobody goes on before all regions are clear.
void Communicator::restart() {
  const CurrentDevice current(device_);
  agreement_.together([&] { check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); });
  agreement_.together([&] {
    PrivateStream().clear(region_->get(), head_.region.bytes());
    begin_region();
  });
  std::memset(failure_->get(), 0, sizeof(Failure));
  broken_.reset();
  storing_.reset();
  parted_well_.reset();
  abandoned_ = false;
}

Communicator::~Communicator() {
  try {
    if (!complete_) return;
    const CurrentDevice current(device_);
    if (!part()) {
      region_->abandon();  // who did not arrive may still have it open
      return;
    }
    windows_->close();
    imports_.clear();
    agreement_.meet();  // memory is freed when nobody has it mapped
  } catch (const std::exception& error) {
    if (region_) region_->abandon();  // others may have it open
    std::fprintf(stderr, "tapa: freeing a device communicator: %s\n", error.what());
  }
}

void Communicator::tell(int peer, Teardown teardown) {
  const auto word = static_cast<Word>(teardown);
  Teardowns& theirs = RegionView(head_.regions[peer], head_.region).teardowns();
  PrivateStream().copy(&theirs.of[head_.rank], &word, sizeof(word));
}

void Communicator::break_down(const DeviceError& why) noexcept {
  if (broken_) return;
  broken_ = why;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == agreement_.rank()) continue;
    try {
      const CurrentDevice current(device_);
      tell(peer, Teardown::failed);
    } catch (const DeviceError&) {  // that peer learns of it by its time-out; `why` is what counts
    }
  }
}

bool Communicator::part() {
  if (parted_well_) return *parted_well_;
  const CurrentDevice current(device_);
  parted_well_ = false;  // also when something below throws
  // Refused while a stream is captured, or after an error of a kernel: then calls may be under way.
  const bool idle = cudaDeviceSynchronize() == cudaSuccess;
  if (!idle) (void)cudaGetLastError();
  const auto say = [&](int peer, Teardown teardown) { tell(peer, teardown); };
  const auto hear = [&] {
    Teardowns said{};
    PrivateStream().read(&said, &RegionView(region_->get(), head_.region).teardowns(), sizeof(said));
    return said;
  };
  const std::chrono::nanoseconds limit(head_.timeout);
  const TornDown parted =
      tear_down(head_.rank, size(), idle && !abandoned_ && !has_failed(), limit, say, hear);
  if (parted.missing >= 0) say_not_freed(names_[static_cast<std::size_t>(parted.missing)], timeout_);
  parted_well_ = parted.well;
  return *parted_well_;
}

void Communicator::check_failure() const {
  int rank = -1;
  check_failure(rank);
}

bool Communicator::has_failed() const {
  try {
    check_failure();
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

LocalState* Communicator::state() const {
  return &RegionView(region_->get(), head_.region).local();
}

void Communicator::check_failure(int& rank) const {
  if (broken_) {
    rank = agreement_.name(agreement_.rank());
    throw DeviceError(broken_->code(),
                      std::string("an earlier call failed on this rank: ") + broken_->what());
  }
  throw_failure(*static_cast<const volatile Failure*>(failure_->get()), names_, timeout_, rank);
}

}  // namespace tapa::device
