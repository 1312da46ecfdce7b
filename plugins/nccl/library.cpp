#include "nccl/library.hpp"

#include <dlfcn.h>

#include "exchange/plugin_guard.hpp"

namespace dit {

template <class Function>
void NcclLibrary::find(void* handle, const char* name, Function& function) const {
  void* const found = dlsym(handle, name);
  if (found == nullptr)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED,
                        std::string("NCCL has no ") + name + ", expected NCCL 2.28 or later");
  function = reinterpret_cast<Function>(found);
}

NcclLibrary::NcclLibrary(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    throw PluginFailure(DIT_ERROR_UNSUPPORTED,
                        std::string("NCCL cannot be loaded: ") + (why != nullptr ? why : path.c_str()));
  }
  find(handle, "ncclGetVersion", get_version);
  find(handle, "ncclGetErrorString", error_string);
  find(handle, "ncclGetUniqueId", get_unique_id);
  find(handle, "ncclCommInitRankConfig", init);
  find(handle, "ncclCommDestroy", destroy);
  find(handle, "ncclCommAbort", abort);
  find(handle, "ncclCommGetAsyncError", async_error);
  find(handle, "ncclGroupStart", group_start);
  find(handle, "ncclGroupEnd", group_end);
  find(handle, "ncclSend", send);
  find(handle, "ncclRecv", recv);
  find(handle, "ncclAlltoAll", all_to_all);
  find(handle, "ncclCommRegister", register_buffer);
  find(handle, "ncclCommDeregister", deregister_buffer);
  find(handle, "ncclCommWindowRegister", register_window);
  find(handle, "ncclCommWindowDeregister", deregister_window);
}

void NcclLibrary::check(ncclResult_t code, const char* function) const {
  if (code == ncclSuccess) return;
  throw PluginFailure(code == ncclInvalidArgument ? DIT_ERROR_ARGUMENT : DIT_ERROR_COMMUNICATION,
                      std::string(function) + " failed: " + error_string(code));
}

std::string NcclLibrary::version() const {
  int number = 0;
  check(get_version(&number), "ncclGetVersion");
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

}  // namespace dit
