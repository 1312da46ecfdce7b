/// @file
/// Makes what a communicator's state is built of, without blocking: a private duplicate, the machine as all
/// ranks describe it, the options as rank 0 has them.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/options.hpp"
#include "topology/topology.hpp"
#include "transport/shm_node.hpp"

namespace tapa {

/// What all ranks agree on. `comm` belongs to the receiver.
struct Agreement {
  MPI_Comm comm = MPI_COMM_NULL;     ///< private duplicate with MPI_ERRORS_RETURN
  Options options;                   ///< rank 0's
  std::string tuning;                ///< text of rank 0's tuning file, or empty
  std::string topology;              ///< what rank 0's option asks for, as a topology file, or empty
  std::vector<std::string> records;  ///< how each rank describes its place, for merge_records
  int ranks_on_host = 1;             ///< of this rank's host
  int cores_on_host = 1;             ///< processors of this host on which these ranks may run
  bool one_rail = false;             ///< MPI was told to use one NIC in each rank, as far as rank 0 knows
  std::unique_ptr<ShmNode> node;     ///< shared memory with the ranks of this host, on all ranks or on none
};

/// The state machine. Collective: every rank of `user` makes one, in the order of its collective calls.
class Setup {
 public:
  explicit Setup(MPI_Comm user);
  ~Setup();
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  /// Advances; true when `result` is complete. Throws CallError on all ranks when rank 0's options are wrong.
  bool advance();

  /// Moves the result out. Precondition: advance() returned true.
  [[nodiscard]] Agreement take();

 private:
  enum class Stage : std::uint8_t { duplicate, sizes, records, memory, done };
  using Cores = std::array<std::uint64_t, 16>;  // a bit for each processor
  [[nodiscard]] static Cores own_cores();
  struct Header {                // what each rank tells first
    std::uint64_t shared_bytes;  // rank 0: options and tuning file; others: 0
    std::uint64_t token_bytes;   // how others open this rank's shared memory; 0: it has none
    std::uint64_t record_bytes;
    std::uint64_t host;      // same number = same host
    std::uint64_t one_rail;  // rank 0: see Agreement
    Cores cores;             // where this rank may run
  };

  void start_sizes();
  void start_records();
  void take_records();
  void connect_memory(const std::vector<std::string>& tokens);
  [[nodiscard]] std::size_t attach_from() const;
  void judge_memory();

  Stage stage_ = Stage::duplicate;
  MPI_Request request_ = MPI_REQUEST_NULL;
  Agreement result_;
  int rank_ = 0;
  int size_ = 0;
  std::optional<ShmSegment> segment_;
  int memory_works_ = 0;  // bits of what works, see connect_memory()
  std::string mine_;
  Header header_{};
  std::vector<Header> headers_;
  std::vector<int> counts_;
  std::vector<int> displs_;
  std::string all_;
};

/// The options of this process's environment. Unknown names are warned about once. Throws CallError for wrong
/// values.
[[nodiscard]] Options environment_options();

}  // namespace tapa
