// The C entry points of the device engine: argument checks.
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "device/communicator.hpp"
#include "device/create.hpp"
#include "device/current_device.hpp"
#include "device/device_error.hpp"
#include "device/islands.hpp"
#include "device/lanes.hpp"
#include "device/places.hpp"
#include "tapa/device.h"

using namespace tapa::device;

namespace {

/// The agreement of a rank's node.
Agreement agreement_in_node(const Agreement& agreement, const tapa::Partition& nodes) {
  if (nodes.groups() == 1) return agreement;
  return {agreement, nodes.members_of(nodes.group_of(agreement.rank()))};
}

}  // namespace

struct TAPA_Device_comm_s {
  TAPA_Device_comm_s(std::shared_ptr<void> context_of_agreement, const Agreement& agreement,
                     const TAPA_Device_options& options, const MessageOffer& offer)
      : context(std::move(context_of_agreement)),
        rank(agreement.rank()),
        size(static_cast<std::size_t>(agreement.size())),
        islands(agree_on_islands(agreement, agree_on_nodes(agreement))),
        communicator(agreement_in_node(agreement, islands.groups), options) {
    agreement.together([&] {  // before the ranks part, which is collective
      if (islands.groups.groups() > 1) lanes.emplace(agreement, islands, communicator, options, offer);
      description = lanes ? lanes->describe() : "one node of " + std::to_string(size) + " ranks";
    });
  }
  ~TAPA_Device_comm_s() {
    lanes.reset();
    bool well = false;
    try {
      well = communicator.part();
    } catch (const std::exception&) {
      well = false;
    }
    // The ranks free it together, and one may be gone: then it stays.
    if (!well) static_cast<void>(new (std::nothrow) std::shared_ptr<void>(std::move(context)));
  }
  TAPA_Device_comm_s(const TAPA_Device_comm_s&) = delete;
  TAPA_Device_comm_s& operator=(const TAPA_Device_comm_s&) = delete;

  std::shared_ptr<void> context;  ///< goes last
  int rank;
  std::size_t size;
  Islands islands;
  Communicator communicator;   ///< of the ranks within reach
  std::optional<Lanes> lanes;  ///< to the others; none: there are none
  std::string description;
  const void* checked_send =
      nullptr;  ///< the last buffers that were found to be the device's: the driver takes
  const void* checked_receive = nullptr;  ///< a good part of a microsecond to say so
  cudaStream_t checked_stream = nullptr;  ///< likewise
};

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw DeviceError(TAPA_DEVICE_ERR_ARG, message);
}

/// Words that are put together belong behind an `if`, to refuse(): calls that are right need none.
void require(bool right, const char* message) {
  if (!right) refuse(message);
}

Communicator& communicator_of(TAPA_Device_comm comm) {
  require(comm != nullptr, "comm is null, expected a communicator of TAPA_Device_comm_create");
  return comm->communicator;
}

/// The caller's options in today's length.
TAPA_Device_options complete(const TAPA_Device_options* options) {
  TAPA_Device_options all{};
  if (options == nullptr) return all;
  if (options->struct_size < sizeof(std::size_t) + sizeof(double) || options->struct_size > 4096) {
    refuse("options.struct_size is " + std::to_string(options->struct_size) +
           ", expected sizeof(TAPA_Device_options)");
  }
  std::memcpy(&all, options, options->struct_size < sizeof(all) ? options->struct_size : sizeof(all));
  return all;
}

/// Throws when a buffer of `bytes` bytes is none that the device can use. `checked`: the last one that is.
void check_buffer(const char* name, const void* buffer, std::size_t bytes, const Communicator& communicator,
                  const void*& checked) {
  if (bytes == 0 || (buffer != nullptr && buffer == checked)) return;
  if (buffer == nullptr) {
    refuse(std::string(name) + " is null, expected device memory of " + std::to_string(bytes) + " bytes");
  }
  const CurrentDevice current(communicator.device());
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, buffer), "cudaPointerGetAttributes");
  if (attributes.devicePointer == nullptr) {
    const bool elsewhere = attributes.type == cudaMemoryTypeDevice;
    refuse(std::string(name) + " is memory of " +
           (elsewhere ? "device " + std::to_string(attributes.device) : std::string("the host")) +
           ", expected memory that device " + std::to_string(communicator.device()) + " can use");
  }
  checked = buffer;
}

/// Throws when a stream is another device's: CUDA does not always refuse to launch kernels there, which
/// cannot reach what they need.
void check_stream(cudaStream_t stream, const Communicator& communicator, cudaStream_t& checked) {
  if (stream == checked || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return;
  const CurrentDevice current(communicator.device());
  const int device = device_of_stream(stream);
  if (device >= 0 && device != communicator.device()) {
    refuse("stream is of device " + std::to_string(device) + ", expected one of the communicator's, device " +
           std::to_string(communicator.device()));
  }
  checked = stream;
}

std::size_t total(std::span<const std::size_t> bytes) {
  std::size_t sum = 0;
  for (const std::size_t each : bytes) sum += each;
  return sum;
}

bool overlap(const void* one, const void* other, std::size_t bytes) {
  const auto* const a = static_cast<const std::byte*>(one);
  const auto* const b = static_cast<const std::byte*>(other);
  return a < b + bytes && b < a + bytes;
}

/// Puts a call of the communicator on a stream. One that CUDA refuses, or whose memory is gone, is missing in
/// this rank's count of calls: there is none after it, and the other ranks learn that. While a stream records
/// nothing runs that could be missed, and after a failure on the device, which has the code of memory that is
/// gone too, nothing runs at all.
template <class Work>
void put_on(cudaStream_t stream, TAPA_Device_comm comm, const Work& work) {
  Communicator& communicator = communicator_of(comm);
  check_stream(stream, communicator, comm->checked_stream);
  try {
    work();
  } catch (const DeviceError& error) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    (void)cudaStreamIsCapturing(stream, &capture);
    (void)cudaGetLastError();
    const bool missing = error.code() == TAPA_DEVICE_ERR_CUDA ||
                         (error.code() == TAPA_DEVICE_ERR_WINDOW && !communicator.has_failed());
    if (missing && capture == cudaStreamCaptureStatusNone) communicator.break_down(error);
    throw;
  }
}

/// A call that needs every rank's memory within reach.
Communicator& one_node(TAPA_Device_comm comm) {
  Communicator& communicator = communicator_of(comm);
  if (comm->lanes) {
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "ranks do not all reach each other's GPUs (" +
                                                       comm->description +
                                                       "), expected one node whose GPUs do");
  }
  return communicator;
}

/// What calls with blocks of own sizes are given. `done`: null where the stream waits for all of the call.
struct BlocksCall {
  const void* send;
  void* receive;
  TAPA_Device_comm comm;
  void* stream;
  cudaEvent_t done;
  [[nodiscard]] cudaStream_t on() const { return static_cast<cudaStream_t>(stream); }
};

/// `recorded`: 0 where the call is all on the stream, as between devices within reach.
cudaEvent_t event_of(void* done, int* recorded, TAPA_Device_comm comm) {
  require(done != nullptr, "done is null, expected an event");
  require(recorded != nullptr, "recorded is null, expected the address of an int");
  (void)communicator_of(comm);
  *recorded = comm->lanes ? 1 : 0;
  return static_cast<cudaEvent_t>(done);
}

void alltoallv(const BlocksCall& call, const size_t sendbytes[], const size_t sdispls[],
               const size_t recvbytes[], const size_t rdispls[]) {
  TAPA_Device_comm comm = call.comm;
  Communicator& communicator = communicator_of(comm);
  require(sendbytes != nullptr, "sendbytes is null, expected an array");
  require(sdispls != nullptr, "sdispls is null, expected an array");
  require(recvbytes != nullptr, "recvbytes is null, expected an array");
  require(rdispls != nullptr, "rdispls is null, expected an array");
  const std::size_t size = comm->size;
  const Layout layout{{sendbytes, size}, {sdispls, size}, {recvbytes, size}, {rdispls, size}};
  const auto own = static_cast<std::size_t>(comm->rank);
  if (sendbytes[own] != recvbytes[own]) {
    refuse("sendbytes[" + std::to_string(own) + "] is " + std::to_string(sendbytes[own]) +
           " and recvbytes is " + std::to_string(recvbytes[own]) +
           ", expected the same for this rank's own block");
  }
  check_buffer("sendbuf", call.send, total(layout.send_bytes), communicator, comm->checked_send);
  check_buffer("recvbuf", call.receive, total(layout.receive_bytes), communicator, comm->checked_receive);
  put_on(call.on(), comm, [&] {
    if (comm->lanes) {
      return comm->lanes->alltoallv(
          call.send, call.receive,
          {layout.send_bytes, layout.send_displs, layout.receive_bytes, layout.receive_displs}, call.on(),
          call.done);
    }
    communicator.alltoallv(call.send, call.receive, layout, call.on());
  });
}

void alltoall_strided(const BlocksCall& call, const TAPA_Device_block send[],
                      const TAPA_Device_block recv[]) {
  TAPA_Device_comm comm = call.comm;
  Communicator& communicator = communicator_of(comm);
  require(send != nullptr, "send is null, expected an array");
  require(recv != nullptr, "recv is null, expected an array");
  const StridedLayout layout = strided_layout(comm->rank, static_cast<int>(comm->size), send, recv);
  check_buffer("sendbuf", call.send, total_bytes(layout.send), communicator, comm->checked_send);
  check_buffer("recvbuf", call.receive, total_bytes(layout.receive), communicator, comm->checked_receive);
  put_on(call.on(), comm, [&] {
    if (comm->lanes)
      return comm->lanes->alltoall_strided(call.send, call.receive, layout, call.on(), call.done);
    communicator.alltoall_strided(call.send, call.receive, layout, call.on());
  });
}

}  // namespace

int tapa::device::create_communicator(const char* function, int rank, int size,
                                      TAPA_Device_allgather allgather, const std::shared_ptr<void>& context,
                                      const MessageOffer& offer, const TAPA_Device_options* options,
                                      TAPA_Device_comm* comm) noexcept {
  return contained(function, [&] {
    require(comm != nullptr, "comm is null, expected the address of a TAPA_Device_comm");
    const BesideCaptures beside;
    const Agreement agreement(rank, size, allgather, context.get());
    agreement.together([&] {
      const TAPA_Device_options all = agreement.gather(complete(options))[0];
      *comm = std::make_unique<TAPA_Device_comm_s>(context, agreement, all, offer).release();
    });
  });
}

bool tapa::device::reaches(TAPA_Device_comm comm, int rank) noexcept {
  return comm->islands.groups.group_of(rank) == comm->islands.groups.group_of(comm->rank);
}

void tapa::device::end_messages(TAPA_Device_comm comm) noexcept {
  if (comm->lanes) comm->lanes->finish();
}

extern "C" {

int TAPA_Device_comm_create(int rank, int size, TAPA_Device_allgather allgather, void* context,
                            const TAPA_Device_options* options, TAPA_Device_comm* comm) {
  const MessageOffer none{{}, "it needs a communicator of TAPA_Device_comm_create_mpi"};
  const std::shared_ptr<void> of_the_caller(std::shared_ptr<void>(), context);
  return create_communicator("TAPA_Device_comm_create", rank, size, allgather, of_the_caller, none, options,
                             comm);
}

int TAPA_Device_reach(int rank, int size, TAPA_Device_allgather allgather, void* context, int groups[]) {
  return contained("TAPA_Device_reach", [&] {
    const BesideCaptures beside;
    const Agreement agreement(rank, size, allgather, context);
    agreement.together([&] {
      require(groups != nullptr, "groups is null, expected room for all ranks");
      const tapa::Partition found = agree_on_islands(agreement, agree_on_nodes(agreement)).groups;
      for (int each = 0; each < size; ++each) groups[each] = found.group_of(each);
    });
  });
}

int TAPA_Device_comm_free(TAPA_Device_comm* comm) {
  return contained("TAPA_Device_comm_free", [&] {
    require(comm != nullptr && *comm != nullptr, "comm is null, expected the address of a communicator");
    const BesideCaptures beside;
    const std::unique_ptr<TAPA_Device_comm_s> owner(*comm);
    *comm = TAPA_DEVICE_COMM_NULL;
  });
}

int TAPA_Device_alltoall(const void* sendbuf, void* recvbuf, size_t bytes, TAPA_Device_comm comm,
                         void* stream) {
  return contained("TAPA_Device_alltoall", [&] {
    Communicator& communicator = communicator_of(comm);
    const std::size_t all = bytes * comm->size;
    check_buffer("sendbuf", sendbuf, all, communicator, comm->checked_send);
    check_buffer("recvbuf", recvbuf, all, communicator, comm->checked_receive);
    require(all == 0 || !overlap(sendbuf, recvbuf, all), "sendbuf and recvbuf overlap, expected two buffers");
    const auto on = static_cast<cudaStream_t>(stream);
    put_on(on, comm, [&] {
      if (comm->lanes) return comm->lanes->alltoall(sendbuf, recvbuf, bytes, on);
      communicator.alltoall(sendbuf, recvbuf, bytes, on);
    });
  });
}

int TAPA_Device_alltoallv(const void* sendbuf, const size_t sendbytes[], const size_t sdispls[],
                          void* recvbuf, const size_t recvbytes[], const size_t rdispls[],
                          TAPA_Device_comm comm, void* stream) {
  return contained("TAPA_Device_alltoallv", [&] {
    alltoallv({sendbuf, recvbuf, comm, stream, nullptr}, sendbytes, sdispls, recvbytes, rdispls);
  });
}

int TAPA_Device_ialltoallv(const void* sendbuf, const size_t sendbytes[], const size_t sdispls[],
                           void* recvbuf, const size_t recvbytes[], const size_t rdispls[],
                           TAPA_Device_comm comm, void* stream, void* done, int* recorded) {
  return contained("TAPA_Device_ialltoallv", [&] {
    alltoallv({sendbuf, recvbuf, comm, stream, event_of(done, recorded, comm)}, sendbytes, sdispls, recvbytes,
              rdispls);
  });
}

int TAPA_Device_alltoall_strided(const void* sendbuf, const TAPA_Device_block send[], void* recvbuf,
                                 const TAPA_Device_block recv[], TAPA_Device_comm comm, void* stream) {
  return contained("TAPA_Device_alltoall_strided", [&] {
    alltoall_strided({sendbuf, recvbuf, comm, stream, nullptr}, send, recv);
  });
}

int TAPA_Device_ialltoall_strided(const void* sendbuf, const TAPA_Device_block send[], void* recvbuf,
                                  const TAPA_Device_block recv[], TAPA_Device_comm comm, void* stream,
                                  void* done, int* recorded) {
  return contained("TAPA_Device_ialltoall_strided", [&] {
    alltoall_strided({sendbuf, recvbuf, comm, stream, event_of(done, recorded, comm)}, send, recv);
  });
}

int TAPA_Device_register(TAPA_Device_comm comm, void* buffer, size_t bytes, int flags, int* window) {
  return contained("TAPA_Device_register", [&] {
    Communicator& communicator = communicator_of(comm);
    const BesideCaptures beside;
    communicator.together([&] {
      require(window != nullptr, "window is null, expected the address of an int");
      const CurrentDevice current(communicator.device());
      *window = communicator.windows().add(buffer, bytes, flags);
    });
  });
}

int TAPA_Device_deregister(TAPA_Device_comm comm, int window) {
  return contained("TAPA_Device_deregister", [&] {
    Communicator& communicator = communicator_of(comm);
    const BesideCaptures beside;
    communicator.together([&] {
      const CurrentDevice current(communicator.device());
      communicator.require_no_stores();
      communicator.windows().remove(window);
    });
  });
}

int TAPA_Device_is_direct(TAPA_Device_comm comm, int window, int* direct) {
  return contained("TAPA_Device_is_direct", [&] {
    require(direct != nullptr, "direct is null, expected the address of an int");
    *direct = communicator_of(comm).windows().is_direct(window) ? 1 : 0;
  });
}

int TAPA_Device_peer_memory(TAPA_Device_comm comm, int window, int rank, void** memory) {
  return contained("TAPA_Device_peer_memory", [&] {
    require(memory != nullptr, "memory is null, expected the address of a pointer");
    *memory = one_node(comm).windows().memory_of(window, rank);
  });
}

int TAPA_Device_begin_stores(TAPA_Device_comm comm, int window, void* stream) {
  return contained("TAPA_Device_begin_stores", [&] {
    const auto on = static_cast<cudaStream_t>(stream);
    put_on(on, comm, [&] { one_node(comm).begin_stores(window, on); });
  });
}

int TAPA_Device_end_stores(TAPA_Device_comm comm, int window, void* stream) {
  return contained("TAPA_Device_end_stores", [&] {
    const auto on = static_cast<cudaStream_t>(stream);
    put_on(on, comm, [&] { one_node(comm).end_stores(window, on); });
  });
}

int TAPA_Device_query(TAPA_Device_comm comm, int* rank) {
  return contained("TAPA_Device_query", [&] {
    int missing = -1;
    if (rank != nullptr) *rank = -1;
    try {
      communicator_of(comm).check_failure(missing);
      if (comm->lanes) comm->lanes->check_failure(missing);
    } catch (const DeviceError&) {
      if (rank != nullptr) *rank = missing;
      throw;
    }
  });
}

int TAPA_Device_give_up(TAPA_Device_comm comm, const char* why) {
  return contained("TAPA_Device_give_up", [&] {
    Communicator& communicator = communicator_of(comm);
    require(why != nullptr, "why is null, expected a text");
    const BesideCaptures beside;
    communicator.break_down(DeviceError(TAPA_DEVICE_ERR_TIMEOUT, why));
    if (comm->lanes) comm->lanes->tell_failure();
  });
}

int TAPA_Device_restart(TAPA_Device_comm comm) {
  return contained("TAPA_Device_restart", [&] {
    const BesideCaptures beside;
    Communicator& communicator = communicator_of(comm);
    communicator.together([&] {
      if (comm->lanes) {
        comm->lanes->restart();
      } else {
        communicator.restart();
      }
    });
  });
}

int TAPA_Device_describe(TAPA_Device_comm comm, const char** text) {
  return contained("TAPA_Device_describe", [&] {
    require(text != nullptr, "text is null, expected the address of a pointer");
    (void)communicator_of(comm);
    *text = comm->description.c_str();
  });
}

const char* TAPA_Device_last_error(void) {
  return last_error();
}

}  // extern "C"
