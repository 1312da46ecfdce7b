#include "c_interface/push.hpp"

#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#ifdef DIT_HAVE_CUDA
#include "transfer/device/cuda_memory.hpp"
#include "transfer/device/prepare_kernel.hpp"
#endif

namespace dit::c_interface {
namespace {

/// A target as its rank tells others of it.
struct Place {
  std::uint64_t offset;  ///< bytes from the registration's begin
  std::int64_t batch, row, head;
};

void require_inside(const dit_registration& registration, const dit_tensor& target, std::size_t extent) {
  const auto begin = reinterpret_cast<std::uintptr_t>(registration.begin);
  const auto at = reinterpret_cast<std::uintptr_t>(target.data);
  if (extent > 0 &&
      (at < begin || at - begin > registration.bytes || extent > registration.bytes - (at - begin)))
    throw std::invalid_argument("target has " + std::to_string(extent) +
                                " bytes that are not all in the registration's memory of " +
                                std::to_string(registration.bytes) + " bytes");
}

void launch([[maybe_unused]] const std::vector<PrepareJob>& jobs, [[maybe_unused]] int element_type,
            [[maybe_unused]] void* stream) {
#ifdef DIT_HAVE_CUDA
  check_cuda(launch_prepare(jobs, element_type, static_cast<cudaStream_t>(stream)), "norm and RoPE kernel");
#else
  throw ExchangeError(DIT_ERROR_UNSUPPORTED, "this build has no kernels");
#endif
}

}  // namespace

BoundTarget bind_target(ExchangeContext& context, dit_registration& registration, const dit_tensor& target,
                        const TensorStrides& strides, std::size_t extent) {
  BoundTarget bound{&registration, target, {}};
  Place own{0, strides.batch, strides.row, strides.head};
  std::string words;
  std::vector<std::byte*> memory(static_cast<std::size_t>(context.size()), nullptr);
  try {
    require_inside(registration, target, extent);
    if (extent > 0)
      own.offset = static_cast<std::uint64_t>(static_cast<std::byte*>(target.data) - registration.begin);
    for (int rank = 0; rank < context.size(); ++rank)
      memory[static_cast<std::size_t>(rank)] = static_cast<std::byte*>(registration.memory.peer_memory(rank));
  } catch (const std::exception& error) {
    words = error.what();
  }
  if (const std::string all = context.agree_on_error(words); !all.empty())
    throw ExchangeError(DIT_ERROR_UNSUPPORTED, all);
  const std::vector<std::byte> places = context.all_gather(std::as_bytes(std::span(&own, 1)));
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    Place place{};
    std::memcpy(&place, places.data() + rank * sizeof(Place), sizeof(Place));
    bound.peers.push_back({memory[rank] + place.offset, place.batch, place.row, place.head});
  }
  return bound;
}

void add_push_parts(PrepareJob& job, const std::vector<PushPart>& map, const BoundTarget& bound,
                    std::size_t element_bytes) {
  if (map.size() > static_cast<std::size_t>(kMostParts))
    throw ExchangeError(DIT_ERROR_UNSUPPORTED, "rows go to " + std::to_string(map.size()) +
                                                   " places: expected at most " + std::to_string(kMostParts));
  for (const PushPart& part : map) {
    const PeerTarget& peer = bound.peers[static_cast<std::size_t>(part.peer)];
    std::byte* const begin =
        peer.begin + static_cast<std::size_t>(part.target_row * peer.row) * element_bytes;
    add_part(job, part, begin, {peer.batch, peer.row, peer.head});
  }
}

void add_part(PrepareJob& job, const PushPart& part, std::byte* begin, const TensorStrides& strides) {
  job.part[job.parts++] = {begin,
                           strides.batch,
                           strides.row,
                           strides.head,
                           static_cast<int>(part.rows.begin),
                           static_cast<int>(part.rows.end),
                           static_cast<int>(part.heads.begin),
                           static_cast<int>(part.heads.end)};
}

void add_own_part(PrepareJob& job, const PushPart& part, const TargetTensor& target,
                  std::size_t element_bytes) {
  const auto row = static_cast<std::size_t>(part.target_row * target.strides.row);
  add_part(job, part, target.bytes.data() + row * element_bytes, target.strides);
}

ExchangeRequest push(const RegisteredMemory& memory, const std::vector<PrepareJob>& jobs, int element_type,
                     [[maybe_unused]] int device, void* stream) {
#ifdef DIT_HAVE_CUDA
  const CurrentCudaDevice current(device);
  (void)cudaGetLastError();  // of the program's: the launch would be taken for failed
#endif
  memory.begin_stores(stream);
  std::exception_ptr failure;
  try {
    launch(jobs, element_type, stream);
  } catch (...) {
    failure = std::current_exception();
  }
  // In any case: the peers are in the handshake, too.
  ExchangeRequest request = memory.end_stores(stream);
  if (failure != nullptr) {
    request.cancel();
    std::rethrow_exception(failure);
  }
  return request;
}

void run_jobs(const std::vector<PrepareJob>& jobs, int element_type, int memory_kind,
              [[maybe_unused]] int device, void* stream) {
  if (memory_kind == DIT_MEMORY_HOST) {
    for (const PrepareJob& job : jobs) prepare_on_host(job, element_type);
    return;
  }
#ifdef DIT_HAVE_CUDA
  const CurrentCudaDevice current(device);
  (void)cudaGetLastError();  // of the program's: the launch would be taken for failed
#endif
  launch(jobs, element_type, stream);
}

}  // namespace dit::c_interface
