/// @file
/// What the ranks of a communicator tell each other when it is set up: the machine as all of them describe
/// it, the options as rank 0 has them, memory that they share, a communicator of their own.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "comm/device_way.hpp"
#include "comm/options.hpp"
#include "run/error.hpp"
#include "transport/shm_node.hpp"

namespace tapa {

/// What all ranks agree on. The communicators belong to the receiver.
struct Agreement {
  MPI_Comm comm = MPI_COMM_NULL;  ///< of the same ranks, without the user's attributes; MPI_ERRORS_RETURN
  std::shared_ptr<const Options> options;  ///< rank 0's
  std::string tuning;                      ///< text of rank 0's tuning file, or empty
  std::string topology;                    ///< what rank 0's option asks for, as a topology file, or empty
  std::string learnt;                      ///< what earlier runs have found, as far as rank 0 knows
  std::vector<std::string> records;        ///< how each rank describes its place, for merge_records
  int ranks_on_host = 1;                   ///< of this rank's host
  bool crowded = false;                    ///< the job has more ranks on this host than it has processors
  bool one_rail = false;      ///< MPI was told to use one NIC in each rank, as far as rank 0 knows
  bool has_progress = false;  ///< on every rank nonblocking operations always advance
  int gpu_rank = -1;          ///< the first whose process uses a GPU, so may have buffers in its memory
  DeviceFacts device;         ///< what decides the way of such buffers
  MPI_Comm device_comm = MPI_COMM_NULL;  ///< for DeviceCalls, where the device engine can serve these ranks
  std::unique_ptr<ShmNode> node;  ///< shared memory with the ranks of this host, on all ranks or on none
};

/// Why a communicator cannot be set up; all its ranks know it alike.
class SetupError : public CallError {
 public:
  SetupError(int code, const std::string& message) : CallError(code, message, Seen::everywhere) {}
};

/// Some rank's process may have MPI_Comm_idup under way, so the ranks could wait for ever for a communicator
/// of their own; all of them know it alike.
class SetupDeferred : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override {
    return "MPI_Comm_idup may be under way on some rank, expected that it is complete";
  }
};

/// Collective over `user`, and may synchronise. Frees everything when it throws: SetupError on all ranks
/// alike, CallError when MPI itself fails, or, if it `defers`, SetupDeferred.
[[nodiscard]] Agreement agree_on_setup(MPI_Comm user, bool defers);

/// Why a communicator is MPI's on which this rank's process uses a GPU.
[[nodiscard]] std::string gpu_message(int rank, const std::string& why);

/// The options of this process's environment. Unknown names are warned about once. Throws CallError for wrong
/// values.
[[nodiscard]] Options environment_options();

/// TAPA_CHECK of this process's environment, its default when it is wrong.
[[nodiscard]] Check own_check();

/// TAPA_TIMEOUT of this process's environment, 0 when it is wrong: before the ranks agree on options there is
/// only that.
[[nodiscard]] double own_timeout();

}  // namespace tapa
