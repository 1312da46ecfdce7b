/// @file
/// Blocking calls with buffers in GPU memory by the device engine: agreement, communicator, registrations.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "comm/device_blocks.hpp"
#include "comm/device_way.hpp"
#include "comm/registrations.hpp"
#include "comm/retired_engines.hpp"
#include "comm/shared_words.hpp"
#include "device/create.hpp"
#include "device/over_mpi.hpp"
#include "report/traffic.hpp"
#include "run/arguments.hpp"
#include "run/cuda_driver.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/on_all_ranks.hpp"
#include "run/poll_to_end.hpp"
#include "tapa/device.h"

namespace tapa {

class DeviceCalls {
 public:
  /// `comm`: of the ranks, for nothing else; belongs to it from now on.
  DeviceCalls(MPI_Comm comm, int rank, const DeviceFacts& facts) : comm_(comm), rank_(rank), facts_(facts) {}

  /// A TAPA_DEVICE_WIRE, alike on all ranks, for an engine that is started later.
  void use_wire(int wire) { wire_ = wire; }

  /// Which way a call takes, the same on all ranks, as `mpi_takes` is. Collective. Throws CallError.
  [[nodiscard]] DeviceWay agree(const Arguments& arguments, bool mpi_takes, Waiter waiter) {
    if (given_up_) return mpi_takes ? DeviceWay::mpi : DeviceWay::stage;
    own_bits_ = look_at(arguments);
    const std::uint64_t agreed = common_bits(waiter);
    const DeviceWay way = decide_call(agreed, mpi_takes);
    // Where MPI takes GPU memory, ranks that are not asked would not all call MPI.
    if (between_nodes() && !has_engine() && !mpi_takes && host_calls_.count(way)) given_up_ = true;
    if (way != DeviceWay::engine) return way;
    if (!start_engine()) return mpi_takes ? DeviceWay::mpi : DeviceWay::stage;
    keep_registrations(agreed);
    in_rows_ = (agreed & CallBits::row) != 0;
    return way;
  }

  /// Carries out the call for which agree() has just said `engine`, to its end. Throws CallError, CudaError.
  void run(const Arguments& a) {
    CudaDriver& driver = *cuda_driver();
    const CudaDriver::Current current(driver, engine_.near);
    const std::byte* const send = a.in_place() && send_.total > 0 ? packed_copy() : send_.base;
    // In a node the two are the same; between nodes only blocks that are alike have lanes.
    if (between_nodes() && in_rows_) {
      require(TAPA_Device_alltoall(send, recv_.base, recv_.bytes[0], engine_.engine, engine_.stream));
    } else {
      require(TAPA_Device_alltoallv(send, send_.bytes.data(), send_.displs.data(), recv_.base,
                                    recv_.bytes.data(), recv_.displs.data(), engine_.engine, engine_.stream));
    }
    driver.wait(engine_.stream);
    require(TAPA_Device_query(engine_.engine, nullptr));
    bytes_sent_ = send_.total;
    if (scratch_bytes_ > kKeptScratch) {
      driver.free_device(engine_.near, scratch_);
      scratch_ = nullptr;
      scratch_bytes_ = 0;
    }
  }

  /// Bytes that run() has sent in the last call, its own block included.
  [[nodiscard]] std::size_t bytes_sent() const { return bytes_sent_; }

  /// Where that call has sent them. `uniform`: to all as many, so `traffic` need not know how many.
  void add_traffic(bool uniform, Traffic& traffic) const {
    for (std::size_t member = 0; member < send_.bytes.size(); ++member) {
      const auto bytes = static_cast<double>(send_.bytes[member]);
      if (!uniform) traffic.add(member, bytes);
      traffic.add_of_gpus(member, bytes, device::reaches(engine_.engine, static_cast<int>(member)));
    }
  }

  /// Local: frees everything but the engine, which is retired.
  void release() {
    if (has_engine()) {
      if (scratch_ != nullptr && engine_.context_lives()) cuda_driver()->free_device(engine_.near, scratch_);
      device::end_messages(engine_.engine);  // MPI may end next
      engine_.comm = std::exchange(comm_, MPI_COMM_NULL);
      RetiredEngines::add(std::exchange(engine_, {}));
    }
    scratch_ = nullptr;
    words_.close();
    if (comm_ != MPI_COMM_NULL) PMPI_Comm_free(&comm_);
  }

 private:
  static constexpr std::size_t kKeptScratch = 256 << 20;  // bytes

  /// Engines between nodes that this process could not start. After some it tries no more, as each try costs
  /// what a start does; a single one may have wanted what others do not, such as a GPU for each rank.
  static constexpr int kMostFailedStarts = 4;
  static inline std::atomic<int> failed_starts{0};

  /// MPI lets a rank come to a call as late as it likes.
  static TAPA_Device_options engine_options(int wire) {
    TAPA_Device_options options{};
    options.struct_size = sizeof(options);
    options.timeout = 1e9;  // seconds; the longest
    options.wire = wire;
    return options;
  }

  /// What this rank says of its buffers. With nothing on a device yet it cannot tell where an engine would
  /// be.
  [[nodiscard]] std::uint64_t look_at(const Arguments& a) {
    const CudaMemory* const near = has_engine() ? &engine_.near : nullptr;
    recv_.describe(a, a.recv, facts_.ranks, near);
    if (a.in_place()) {
      send_ = recv_;
    } else {
      send_.describe(a, a.send, facts_.ranks, near);
      if (a.form == Form::uniform) {  // MPI lets a receiver expect more than is sent
        for (std::size_t& bytes : recv_.bytes) bytes = std::min(bytes, send_.bytes[0]);
      }
    }
    std::uint64_t bits = call_bits(send_.place, recv_.place, a.has_equal_buffers());
    const bool one_device = !send_.memory || !recv_.memory || send_.memory->device == recv_.memory->device;
    const bool placed = has_engine() || send_.memory || recv_.memory;
    const auto own = static_cast<std::size_t>(rank_);
    const bool matches = send_.bytes[own] == recv_.bytes[own];  // else MPI says what is wrong
    const bool gives_up = between_nodes() && failed_starts >= kMostFailedStarts;
    const bool may_start = has_engine() || !(RetiredEngines::are_too_many() || gives_up);
    if (!one_device || !placed || !matches || !may_start) bits &= ~CallBits::engine;
    if (a.in_place() && has_engine() && (bits & CallBits::engine) != 0) {
      try {
        grow_scratch();  // while the others can still be told that there is no memory
      } catch (const CudaError&) {
        bits &= ~CallBits::engine;
      }
    }
    // Memory is registered for ranks of the same node.
    const bool wants =
        facts_.ranks_of_node > 1 && recv_.memory && registrations_.wanted(*recv_.memory, recv_.longest);
    const bool stale =
        std::ranges::any_of(recv_.parts, [&](const CudaMemory& part) { return registrations_.stale(part); });
    // TAPA_Device_alltoall sends from a packed copy of blocks in place.
    const bool apart = send_.base + send_.total <= recv_.base || recv_.base + recv_.total <= send_.base;
    const bool row = a.form == Form::uniform && recv_.in_row() && (a.in_place() || (send_.in_row() && apart));
    return bits | (wants ? 0 : CallBits::registered) | (stale ? 0 : CallBits::fresh) |
           (row ? CallBits::row : 0);
  }

  /// The bits of own_bits_ that hold on all ranks. Collective.
  [[nodiscard]] std::uint64_t common_bits(Waiter waiter) {
    if (!has_words_) has_words_ = !between_nodes() && words_.open(comm_);
    return *has_words_ ? words_.common_bits(own_bits_, waiter) : bits_by_message(waiter);
  }

  /// Operations that another rank waits for before it comes here make progress meanwhile.
  [[nodiscard]] std::uint64_t bits_by_message(Waiter waiter) const {
    const CallTally mine = tally_of(own_bits_, rank_, send_.bytes, recv_.bytes);
    CallTally sum;
    static_assert(sizeof sum == 2 * sizeof(std::uint64_t));
    PendingCollective pending{MPI_REQUEST_NULL, "MPI_Iallreduce"};
    check_mpi(PMPI_Iallreduce(&mine, &sum, 2, MPI_UINT64_T, MPI_SUM, comm_, &pending.request),
              pending.function);
    poll_to_end(pending, false, waiter, {}, [] { return std::string(); });
    return tapa::common_bits(sum, facts_.ranks);
  }

  [[nodiscard]] bool between_nodes() const { return facts_.nodes > 1; }
  [[nodiscard]] bool has_engine() const { return engine_.engine != TAPA_DEVICE_COMM_NULL; }

  /// What the engine needs of this rank alone. Returns what holds its communicator.
  [[nodiscard]] std::shared_ptr<MPI_Comm> prepare_engine() {
    CudaDriver& driver = *cuda_driver();
    try {
      const CudaDriver::Current current(driver, engine_.near);
      engine_.stream = driver.make_stream(engine_.near);
      engine_.probe = driver.allocate_device(engine_.near, 1);
      engine_.probe_id = driver.memory(engine_.probe).buffer;
      return std::make_shared<MPI_Comm>(comm_);
    } catch (const CudaError& e) {
      log_warn(words("no device engine: ", e.what()));
      throw;
    }
  }

  /// Local: the engine itself stays, as freeing it would wait for ranks that have none.
  void drop_engine() {
    if (has_engine()) device::end_messages(engine_.engine);
    if (engine_.stream != nullptr) cuda_driver()->end_stream(engine_.near, engine_.stream);
    if (engine_.probe != nullptr) cuda_driver()->free_device(engine_.near, engine_.probe);
    engine_ = {};
  }

  /// Collective. False: it cannot be had, on all ranks alike.
  [[nodiscard]] bool start_engine() {
    if (has_engine()) return true;
    engine_.near = send_.memory ? *send_.memory : *recv_.memory;
    std::shared_ptr<MPI_Comm> ranks;
    given_up_ = !on_all_ranks(comm_, [&] { ranks = prepare_engine(); });
    if (given_up_) {
      drop_engine();
      return false;
    }
    RetiredEngines::free_those_of(comm_);
    engine_.number = DeviceEngine::new_number();
    check_mpi(PMPI_Bcast(&engine_.number, 1, MPI_UINT64_T, 0, comm_), "MPI_Bcast");
    const CudaDriver::Current current(*cuda_driver(), engine_.near);
    const TAPA_Device_options options = engine_options(wire_);
    const bool made = device::create_on_own_comm(ranks, &options, &engine_.engine) == TAPA_DEVICE_SUCCESS;
    given_up_ = !on_all_ranks(comm_, made);
    if (rank_ == 0 && !given_up_) tell_engine();
    if (rank_ == 0 && !made) tell_no_engine();
    if (!given_up_) {
      engine_.weight = between_nodes() ? DeviceEngine::kWeightBetweenNodes : 1;
      return true;
    }
    if (between_nodes()) ++failed_starts;
    drop_engine();
    return false;
  }

  void tell_engine() const {
    const char* text = "";
    if (TAPA_Device_describe(engine_.engine, &text) == TAPA_DEVICE_SUCCESS)
      log_info(words("buffers in GPU memory take the device engine: ", text));
  }

  /// Programs make many communicators: that no wire joins nodes is said once.
  void tell_no_engine() const {
    const std::string line =
        std::string("buffers in GPU memory do not take the device engine: ") + TAPA_Device_last_error();
    if (between_nodes() && failed_starts > 0)
      log_info(line);
    else
      log_warn(line);
  }

  /// Collective: all ranks see the same bits.
  void keep_registrations(std::uint64_t agreed) {
    if ((agreed & CallBits::fresh) == 0) drop_registrations();
    if ((agreed & CallBits::registered) != 0) return;
    if (const auto window = registrations_.to_evict()) {
      require(TAPA_Device_deregister(engine_.engine, *window));
      registrations_.evict();
    }
    std::optional<CudaMemory> mine;
    if ((own_bits_ & CallBits::registered) == 0) mine = recv_.memory;
    int window = -1;
    require(TAPA_Device_register(engine_.engine, mine ? reinterpret_cast<void*>(mine->base) : nullptr,
                                 mine ? mine->bytes : 0, 0, &window));
    registrations_.add(window, mine);
  }

  void drop_registrations() {
    while (const auto window = registrations_.oldest()) {
      require(TAPA_Device_deregister(engine_.engine, *window));
      registrations_.drop();
    }
  }

  void grow_scratch() {
    if (scratch_bytes_ >= send_.total) return;
    CudaDriver& driver = *cuda_driver();
    if (scratch_ != nullptr) driver.free_device(engine_.near, scratch_);
    scratch_ = nullptr;
    scratch_bytes_ = 0;
    scratch_ = driver.allocate_device(engine_.near, send_.total);
    scratch_bytes_ = send_.total;
  }

  /// A packed copy of the receive blocks, for calls in place. Changes what send_ says to it.
  const std::byte* packed_copy() {
    CudaDriver& driver = *cuda_driver();
    grow_scratch();
    std::size_t done = 0;
    for (std::size_t peer = 0; peer < send_.bytes.size(); ++peer) {
      const std::size_t bytes = send_.bytes[peer];
      if (bytes > 0) {
        const std::byte* const from = recv_.base + recv_.displs[peer];
        driver.copy(engine_.stream, {static_cast<std::byte*>(scratch_) + done, bytes, from, bytes, bytes, 1});
      }
      send_.displs[peer] = done;
      done += bytes;
    }
    return static_cast<std::byte*>(scratch_);
  }

  /// What is wrong about the engine is this rank's to tell; the others wait until the job ends.
  void require(int code) const {
    if (code != TAPA_DEVICE_SUCCESS) refuse(MPI_ERR_OTHER, TAPA_Device_last_error());
  }

  MPI_Comm comm_;
  SharedWords words_;
  std::optional<bool> has_words_;  // from the first call on
  int rank_;
  DeviceFacts facts_;
  HostCalls host_calls_;
  int wire_ = TAPA_DEVICE_WIRE_AUTO;
  bool in_rows_ = false;  // the call's blocks, on all ranks
  std::uint64_t own_bits_ = 0;
  DeviceBlocks send_, recv_;
  std::size_t bytes_sent_ = 0;
  bool given_up_ = false;  // no engine could be started, or ranks are asked no more; alike on all ranks
  DeviceEngine engine_;    // its stream is its own: threads call on communicators in any order
  Registrations registrations_;
  void* scratch_ = nullptr;  // device memory, for calls in place
  std::size_t scratch_bytes_ = 0;
};

}  // namespace tapa
