#include "nccl.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <vector>

#if __has_include(<nccl.h>)
#include <nccl.h>
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#define TAPA_BENCH_NCCL 1
#endif
#endif

namespace tapa::bench {

#ifdef TAPA_BENCH_NCCL

namespace {

template <class Value>
std::vector<Value> gather(const Launch& launch, const Value& mine) {
  std::vector<Value> all(static_cast<std::size_t>(launch.size));
  launch.allgather(&mine, all.data(), sizeof(Value));
  return all;
}

/// NCCL's functions by name.
class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  template <class Function>
  Function* find(const char* name, Function*) const {
    void* const found = dlsym(handle_, name);
    if (found == nullptr) throw std::runtime_error(std::string(name) + " not found in NCCL");
    return reinterpret_cast<Function*>(found);
  }

 private:
  void* handle_;
};

#define TAPA_NCCL(library, name) (library).find(#name, &(name))

void check(ncclResult_t code, const char* call) {
  if (code != ncclSuccess)
    throw std::runtime_error(std::string(call) + ": NCCL error " + std::to_string(code));
}
void check_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}

class NcclOf final : public Nccl {
 public:
  NcclOf(const Launch& launch, const std::string& path, Policy policy, std::size_t bytes)
      : library_(path), ranks_(launch.size), alltoall_(TAPA_NCCL(library_, ncclAlltoAll)) {
    ncclUniqueId id{};
    if (launch.rank == 0) check(TAPA_NCCL(library_, ncclGetUniqueId)(&id), "ncclGetUniqueId");
    id = gather(launch, id)[0];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (policy == Policy::zero_cta) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    check(TAPA_NCCL(library_, ncclCommInitRankConfig)(&comm_, launch.size, id, launch.rank, &config),
          "ncclCommInitRankConfig");
    if (policy == Policy::zero_cta) {
      allocate_symmetric(bytes);
    } else {
      check_cuda(cudaMalloc(&send_, bytes), "cudaMalloc");
      check_cuda(cudaMalloc(&receive_, bytes), "cudaMalloc");
    }
  }
  // Buffers and communicator live until the process ends: a benchmark has them throughout.

  [[nodiscard]] char* send() const override { return static_cast<char*>(send_); }
  [[nodiscard]] char* receive() const override { return static_cast<char*>(receive_); }
  void alltoall(std::size_t block, cudaStream_t stream) override { alltoall(send_, receive_, block, stream); }
  void alltoall(const void* from, void* to, std::size_t block, cudaStream_t stream) override {
    check(alltoall_(from, to, block, ncclInt8, comm_, stream), "ncclAlltoAll");
  }
  void alltoallv(const void* from, const Blocks& sent, void* to, const Blocks& received,
                 cudaStream_t stream) override {
    check(group_start_(), "ncclGroupStart");
    for (int peer = 0; peer < ranks_; ++peer) {
      check(put_(static_cast<const char*>(from) + sent.displs[peer],
                 static_cast<std::size_t>(sent.bytes[peer]), ncclInt8, peer, comm_, stream),
            "ncclSend");
      check(take_(static_cast<char*>(to) + received.displs[peer],
                  static_cast<std::size_t>(received.bytes[peer]), ncclInt8, peer, comm_, stream),
            "ncclRecv");
    }
    check(group_end_(), "ncclGroupEnd");
  }

 private:
  void allocate_symmetric(std::size_t bytes) {
    const auto allocate = TAPA_NCCL(library_, ncclMemAlloc);
    const auto enlist = TAPA_NCCL(library_, ncclCommWindowRegister);
    for (void** buffer : {&send_, &receive_}) {
      check(allocate(buffer, bytes), "ncclMemAlloc");
      ncclWindow_t window{};
      check(enlist(comm_, *buffer, bytes, &window, NCCL_WIN_COLL_SYMMETRIC), "ncclCommWindowRegister");
    }
  }

  Library library_;
  int ranks_;
  decltype(&ncclAlltoAll) alltoall_;
  decltype(&ncclGroupStart) group_start_ = TAPA_NCCL(library_, ncclGroupStart);
  decltype(&ncclGroupEnd) group_end_ = TAPA_NCCL(library_, ncclGroupEnd);
  decltype(&ncclSend) put_ = TAPA_NCCL(library_, ncclSend);
  decltype(&ncclRecv) take_ = TAPA_NCCL(library_, ncclRecv);
  ncclComm_t comm_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
};

}  // namespace

std::string Nccl::version(const std::string& path) {
  try {
    int number = 0;
    check(TAPA_NCCL(Library(path), ncclGetVersion)(&number), "ncclGetVersion");
    return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
           std::to_string(number % 100);
  } catch (const std::exception&) {
    return "";
  }
}

std::unique_ptr<Nccl> Nccl::make(const Launch& launch, const std::string& library, Policy policy,
                                 std::size_t bytes) {
  std::unique_ptr<Nccl> made;
  std::string why;
  try {
    made = std::make_unique<NcclOf>(launch, library, policy, bytes);
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::vector<char> there = gather<char>(launch, made != nullptr ? 1 : 0);
  if (std::find(there.begin(), there.end(), 0) == there.end()) return made;
  if (launch.rank == 0) {
    std::fprintf(stderr, "no NCCL (%s): %s\n", policy == Policy::zero_cta ? "zero-CTA" : "default",
                 why.c_str());
  }
  return nullptr;
}

#else

std::string Nccl::version(const std::string&) {
  return "";
}
std::unique_ptr<Nccl> Nccl::make(const Launch&, const std::string&, Policy, std::size_t) {
  return nullptr;
}

#endif

}  // namespace tapa::bench
