#include "gpu.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <exception>

#include "nccl.hpp"

namespace tapa::bench {

namespace {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int local_rank(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank = 0;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_free(&node);
  return rank;
}

Launch launch_of(MPI_Comm comm) {
  Launch launch{};
  MPI_Comm_rank(comm, &launch.rank);
  MPI_Comm_size(comm, &launch.size);
  launch.allgather = [comm](const void* mine, void* all, std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm);
  };
  return launch;
}

/// Calls and waits for them, errors end the job.
class BlockingNccl final : public NcclRival {
 public:
  BlockingNccl(std::unique_ptr<Nccl> nccl, bool own_buffers)
      : nccl_(std::move(nccl)), own_buffers_(own_buffers) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~BlockingNccl() override { (void)cudaStreamDestroy(stream_); }

  [[nodiscard]] std::uint8_t* send() const override {
    return own_buffers_ ? reinterpret_cast<std::uint8_t*>(nccl_->send()) : nullptr;
  }
  [[nodiscard]] std::uint8_t* recv() const override {
    return own_buffers_ ? reinterpret_cast<std::uint8_t*>(nccl_->receive()) : nullptr;
  }
  void alltoall(const void* send, void* recv, std::size_t bytes) override {
    run([&] { nccl_->alltoall(send, recv, bytes, stream_); });
  }
  void alltoallv(const void* send, const int* sendbytes, const int* sdispls, void* recv, const int* recvbytes,
                 const int* rdispls) override {
    run([&] { nccl_->alltoallv(send, {sendbytes, sdispls}, recv, {recvbytes, rdispls}, stream_); });
  }

 private:
  template <class Call>
  void run(const Call& call) {
    try {
      call();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  std::unique_ptr<Nccl> nccl_;
  bool own_buffers_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::string take_gpu(MPI_Comm comm) {
  int devices = 0;
  cudaError_t code = cudaGetDeviceCount(&devices);
  const int local = local_rank(comm);
  if (code == cudaSuccess) code = cudaSetDevice(local % devices);
  if (code == cudaSuccess) code = cudaFree(nullptr);  // makes the context
  int worst = code;
  MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, comm);
  return worst == cudaSuccess ? "" : cudaGetErrorString(static_cast<cudaError_t>(worst));
}

bool mpi_takes_gpu_memory() {
  void* const query = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
  return query != nullptr && reinterpret_cast<int (*)()>(query)() != 0;
}

std::uint8_t* allocate_on_gpu(std::size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
  return static_cast<std::uint8_t*>(memory);
}
void free_on_gpu(void* memory) {
  (void)cudaFree(memory);
}
void copy_any(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::unique_ptr<NcclRival> NcclRival::make(MPI_Comm comm, const std::string& library, bool zero_cta,
                                           std::size_t bytes) {
  const auto policy = zero_cta ? Nccl::Policy::zero_cta : Nccl::Policy::standard;
  auto nccl = Nccl::make(launch_of(comm), library, policy, zero_cta ? bytes : 1);
  if (nccl == nullptr) return nullptr;
  return std::make_unique<BlockingNccl>(std::move(nccl), zero_cta);
}

}  // namespace tapa::bench
