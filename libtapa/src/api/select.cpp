// The entry points of the selective all-to-all.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <utility>

#include "api/entry.hpp"
#include "carry/carriers.hpp"
#include "carry/selection_agreement.hpp"
#include "route/check_arguments.hpp"
#include "run/device_memory.hpp"
#include "run/selection.hpp"
#include "tapa/tapa.h"

using namespace tapa;

/// What the handle points to. Operations hold the inner part, so that freeing the handle early does no harm.
struct TAPA_Selection_s {
  std::shared_ptr<CommState> state;
  std::shared_ptr<const RowSelection> rows;
  std::size_t serial = 0;  ///< alike on no two selections of this process

  std::mutex mutex;  ///< guards the counts of the last row size
  std::size_t rowbytes = 0;
  std::shared_ptr<const Counts> counts;
  std::size_t mean = 0;
  bool uniform = false;
};

namespace {

/// A call as it was made.
struct SelectCall {
  const char* function;
  const void* sendbuf;
  const MPI_Aint* sdispls;
  void* recvbuf;
  const MPI_Aint* rdispls;
  std::size_t rowbytes;
  TAPA_Selection selection;
};

void require_selection(TAPA_Selection selection) {
  if (selection == TAPA_SELECTION_NULL)
    refuse(MPI_ERR_ARG, "selection is TAPA_SELECTION_NULL, expected one made by TAPA_Selection_create");
}

MPI_Comm comm_of(TAPA_Selection selection) {
  return selection == TAPA_SELECTION_NULL ? MPI_COMM_NULL : selection->state->user;
}

void check_side(const char* buffer_name, const void* buffer, const char* displs_name, const MPI_Aint* displs,
                std::size_t rowbytes, const RowSelection& rows,
                const BlockRows& (RowSelection::*block)(int) const) {
  if (displs == nullptr) refuse(MPI_ERR_ARG, displs_name, " is null, expected an array");
  if (buffer == MPI_IN_PLACE)
    refuse(MPI_ERR_BUFFER, buffer_name, " is MPI_IN_PLACE, expected a buffer of its own");
  for (int peer = 0; peer < rows.ranks(); ++peer) {
    if (buffer == nullptr && (rows.*block)(peer).travelling > 0 && rowbytes > 0)
      refuse(MPI_ERR_BUFFER, buffer_name, " is null, expected a buffer: the block for rank ", peer, " has ",
             (rows.*block)(peer).travelling, " rows that travel");
    if (displs[peer] < 0) {
      refuse(MPI_ERR_ARG, displs_name, "[", peer, "] is ", displs[peer], ", expected 0 or more");
    }
  }
}

/// The block whose rows begin at `data`. A single run of rows is dense.
Block block_of(std::byte* data, const BlockRows& rows, std::size_t rowbytes) {
  Block block;
  block.bytes = rows.travelling * rowbytes;
  if (block.bytes == 0) return block;
  if (rows.runs.size() == 1) {
    block.data = data + rows.runs[0].first * rowbytes;
    return block;
  }
  block.data = data;
  block.runs = rows.runs;
  block.row_bytes = rowbytes;
  return block;
}

/// Tells the operation the counts of all pairs where they are known: they need not be exchanged.
void describe_counts(TAPA_Selection_s& selection, std::size_t rowbytes, Operation& operation) {
  Exchange& exchange = operation.call().exchange;
  const std::lock_guard lock(selection.mutex);
  if (!selection.counts || selection.rowbytes != rowbytes) {
    auto matrix = selection.rows->matrix(rowbytes);
    if (matrix.empty()) return;
    selection.uniform = std::ranges::all_of(matrix, [&](std::size_t bytes) { return bytes == matrix[0]; });
    selection.mean = std::accumulate(matrix.begin(), matrix.end(), std::size_t{0}) / matrix.size();
    selection.rowbytes = rowbytes;
    selection.counts =
        std::make_shared<const Counts>(Counts::matrix(selection.rows->ranks(), std::move(matrix)));
  }
  exchange.uniform = selection.uniform;
  exchange.uniform_bytes = selection.uniform ? selection.mean : 0;
  operation.choosing().know_counts(selection.counts, selection.mean, {selection.serial, rowbytes, 0});
}

constexpr const char* kNoGpu = "selective all-to-alls do not take it";

std::unique_ptr<Operation> begin(const SelectCall& call, Mode mode) {
  TAPA_Selection_s& selection = *call.selection;
  const RowSelection& rows = *selection.rows;
  if (selection.state->rules().check != Check::off) {
    check_side("sendbuf", call.sendbuf, "sdispls", call.sdispls, call.rowbytes, rows, &RowSelection::send);
    check_side("recvbuf", call.recvbuf, "rdispls", call.rdispls, call.rowbytes, rows, &RowSelection::recv);
  }
  if (!selection.state->rules().trusts_buffers && gpu_in_use()) {
    require_host_memory(call.sendbuf, "sendbuf", kNoGpu);
    require_host_memory(call.recvbuf, "recvbuf", kNoGpu);
  }
  auto operation = begin_operation(selection.state, mode, call.function,
                                   mode == Mode::blocking ? selection.state->user : MPI_COMM_NULL);
  Exchange& exchange = operation->call().exchange;
  exchange = {};
  const auto row = static_cast<MPI_Aint>(call.rowbytes);
  auto* send = static_cast<std::byte*>(const_cast<void*>(call.sendbuf));
  auto* recv = static_cast<std::byte*>(call.recvbuf);
  for (int peer = 0; peer < rows.ranks(); ++peer) {
    exchange.send.push_back(block_of(send + call.sdispls[peer] * row, rows.send(peer), call.rowbytes));
    exchange.recv.push_back(block_of(recv + call.rdispls[peer] * row, rows.recv(peer), call.rowbytes));
  }
  describe_counts(selection, call.rowbytes, *operation);
  return operation;
}

int run_select(const SelectCall& call, Mode mode, MPI_Request* request = nullptr) {
  return guarded(comm_of(call.selection), call.function, [&] {
    require_selection(call.selection);
    if (mode != Mode::blocking) require_request(request);
    auto operation = begin(call, mode);
    Route never_mpis;
    if (mode == Mode::blocking)
      run_to_end(std::move(operation), never_mpis);
    else if (!submit_operation(std::move(operation), call.selection->rows, call.selection->state->user,
                               request))
      refuse(MPI_ERR_OTHER, "too many persistent requests of this communicator live");
  });
}

}  // namespace

extern "C" {

int TAPA_Selection_create(const int sendrows[], const int recvrows[], const int nactive[], const int active[],
                          int one_list, const char* boundary, MPI_Comm comm, TAPA_Selection* selection) {
  return guarded(comm, "TAPA_Selection_create", [&] {
    auto made = std::make_unique<TAPA_Selection_s>();
    made->state = ready_state(comm);
    made->rows = SelectionAgreement(*made->state, {sendrows, recvrows, nactive, active, one_list != 0,
                                                   boundary, selection != nullptr})
                     .run();
    static std::atomic<std::size_t> serials{0};
    made->serial = ++serials;
    *selection = made.release();
  });
}

int TAPA_Selection_free(TAPA_Selection* selection) {
  return guarded(MPI_COMM_NULL, "TAPA_Selection_free", [&] {
    if (selection == nullptr)
      refuse(MPI_ERR_ARG, "selection is null, expected the address of a TAPA_Selection");
    require_selection(*selection);
    delete *selection;
    *selection = TAPA_SELECTION_NULL;
  });
}

int TAPA_Selection_bytes(TAPA_Selection selection, size_t rowbytes, size_t* sent, size_t* received) {
  return guarded(comm_of(selection), "TAPA_Selection_bytes", [&] {
    require_selection(selection);
    if (sent != nullptr) *sent = selection->rows->bytes_sent(rowbytes);
    if (received != nullptr) *received = selection->rows->bytes_received(rowbytes);
  });
}

int TAPA_Alltoallv_select(const void* sendbuf, const MPI_Aint sdispls[], void* recvbuf,
                          const MPI_Aint rdispls[], size_t rowbytes, TAPA_Selection selection) {
  return run_select({"TAPA_Alltoallv_select", sendbuf, sdispls, recvbuf, rdispls, rowbytes, selection},
                    Mode::blocking);
}

int TAPA_Ialltoallv_select(const void* sendbuf, const MPI_Aint sdispls[], void* recvbuf,
                           const MPI_Aint rdispls[], size_t rowbytes, TAPA_Selection selection,
                           MPI_Request* request) {
  return run_select({"TAPA_Ialltoallv_select", sendbuf, sdispls, recvbuf, rdispls, rowbytes, selection},
                    Mode::nonblocking, request);
}

int TAPA_Alltoallv_select_init(const void* sendbuf, const MPI_Aint sdispls[], void* recvbuf,
                               const MPI_Aint rdispls[], size_t rowbytes, TAPA_Selection selection, MPI_Info,
                               MPI_Request* request) {
  return run_select({"TAPA_Alltoallv_select_init", sendbuf, sdispls, recvbuf, rdispls, rowbytes, selection},
                    Mode::persistent, request);
}

}  // extern "C"
