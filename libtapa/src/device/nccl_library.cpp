#include "device/nccl_library.hpp"

#include <dlfcn.h>

#include "device/device_error.hpp"

namespace tapa::device {

namespace {

constexpr const char* kName = "libnccl.so.2";

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) {
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                      std::string(kName) + " has no " + name + ", expected NCCL 2.7 or later");
  }
}

}  // namespace

NcclLibrary::NcclLibrary() {
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, std::string("NCCL: ") + (why != nullptr ? why : kName));
  }
  find(library, "ncclGetVersion", version_);
  find(library, "ncclGetUniqueId", make_id_);
  find(library, "ncclCommInitRank", join_);
  find(library, "ncclCommDestroy", destroy_);
  find(library, "ncclCommAbort", abort_);
  find(library, "ncclCommGetAsyncError", async_error_);
  find(library, "ncclGroupStart", begin_group_);
  find(library, "ncclGroupEnd", end_group_);
  find(library, "ncclSend", send_);
  find(library, "ncclRecv", receive_);
  find(library, "ncclGetErrorString", error_text_);
}

void NcclLibrary::check(int code, const char* call) const {
  if (code == 0) return;
  (void)cudaGetLastError();  // NCCL leaves CUDA's
  throw DeviceError(TAPA_DEVICE_ERR_CUDA, std::string(call) + ": " + text_of(code));
}

std::string NcclLibrary::version() const {
  int number = 0;
  check(version_(&number), "ncclGetVersion");
  const int major = number < 10000 ? 1000 : 10000;  // 2.8 and before: 2809, then 20900
  return std::to_string(number / major) + "." + std::to_string(number % major / 100) + "." +
         std::to_string(number % 100);
}

NcclId NcclLibrary::make_id() const {
  NcclId id{};
  check(make_id_(&id), "ncclGetUniqueId");
  return id;
}

NcclCommunicator* NcclLibrary::join(const NcclId& id, int rank, int size) const {
  NcclCommunicator* made = nullptr;
  check(join_(&made, size, id, rank), "ncclCommInitRank");
  return made;
}

void NcclLibrary::destroy(NcclCommunicator* communicator) const {
  (void)destroy_(communicator);
}
void NcclLibrary::abort(NcclCommunicator* communicator) const {
  (void)abort_(communicator);
}

int NcclLibrary::error_of(NcclCommunicator* communicator) const {
  int error = 0;
  const int code = async_error_(communicator, &error);
  return code != 0 ? code : error;
}
std::string NcclLibrary::text_of(int error) const {
  return std::string(error_text_(error)) + " (NCCL_DEBUG=WARN says more)";
}

void NcclLibrary::begin_group() const {
  check(begin_group_(), "ncclGroupStart");
}
void NcclLibrary::end_group() const {
  check(end_group_(), "ncclGroupEnd");
}

void NcclLibrary::send(const void* memory, std::size_t bytes, int peer, NcclCommunicator* communicator,
                       cudaStream_t stream) const {
  check(send_(memory, bytes, kBytes, peer, communicator, stream), "ncclSend");
}
void NcclLibrary::receive(void* memory, std::size_t bytes, int peer, NcclCommunicator* communicator,
                          cudaStream_t stream) const {
  check(receive_(memory, bytes, kBytes, peer, communicator, stream), "ncclRecv");
}

}  // namespace tapa::device
