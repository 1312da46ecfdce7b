/// @file
/// Blocking calls with buffers in GPU memory by the device engine: what ranks agree on before each, its
/// communicator, registrations.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/device_blocks.hpp"
#include "comm/device_way.hpp"
#include "comm/registrations.hpp"
#include "comm/retired_engines.hpp"
#include "comm/shared_words.hpp"
#include "report/traffic.hpp"
#include "run/arguments.hpp"
#include "run/cuda_driver.hpp"
#include "tapa/device.h"

namespace tapa {

class DeviceCalls {
 public:
  /// `comm`: of the ranks, for nothing else; belongs to it from now on.
  DeviceCalls(MPI_Comm comm, int rank, const DeviceFacts& facts)
      : comm_(comm), rank_(rank), ranks_(facts.ranks), facts_(facts) {}

  /// A TAPA_DEVICE_WIRE, alike on all ranks, for an engine that is started later.
  void use_wire(int wire) { wire_ = wire; }

  /// Which way a call takes, the same on all ranks, as `mpi_takes` is. Collective. Throws CallError.
  [[nodiscard]] CallWay agree(const Arguments& arguments, bool mpi_takes, Waiter waiter);

  /// Carries out the call for which agree() has just said `engine`, to its end. Throws CallError, CudaError.
  void run(const Arguments& arguments);

  /// Bytes that run() has sent in the last call, its own block included.
  [[nodiscard]] std::size_t bytes_sent() const { return bytes_sent_; }

  /// Where that call has sent them. `uniform`: to all as many, so `traffic` need not know how many.
  void add_traffic(bool uniform, Traffic& traffic) const;

  /// Local: frees everything but the engine, which is retired.
  void release();

 private:
  [[nodiscard]] std::uint64_t look_at(const Arguments& arguments);
  [[nodiscard]] std::uint64_t common_bits(Waiter waiter);
  [[nodiscard]] std::uint64_t bits_by_message(Waiter waiter) const;
  [[nodiscard]] bool in_rows(const Arguments& arguments) const;
  [[nodiscard]] bool between_nodes() const { return facts_.nodes > 1; }
  [[nodiscard]] bool has_engine() const { return engine_.engine != TAPA_DEVICE_COMM_NULL; }
  [[nodiscard]] std::shared_ptr<MPI_Comm> prepare_engine();
  void drop_engine();
  [[nodiscard]] bool start_engine();
  void tell_engine() const;
  void tell_no_engine() const;
  void keep_registrations(std::uint64_t agreed);
  void drop_registrations();
  void grow_scratch();
  const std::byte* packed_copy();
  void require(int code) const;

  MPI_Comm comm_;
  SharedWords words_;
  enum class Words : std::uint8_t { unknown, open, none };
  Words has_words_ = Words::unknown;
  int rank_;
  int ranks_;
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
