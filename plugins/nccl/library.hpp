/// NCCL's functions, of a library that is loaded when it is needed.
#pragma once

#include <nccl.h>

#include <string>

namespace dit {

/// Stays loaded to the program's end.
class NcclLibrary {
 public:
  /// Throws PluginFailure (DIT_ERROR_UNSUPPORTED) when it cannot be loaded or lacks a function.
  explicit NcclLibrary(const std::string& path);

  /// Throws PluginFailure with NCCL's words unless the code is ncclSuccess.
  void check(ncclResult_t code, const char* function) const;
  [[nodiscard]] std::string version() const;

  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) recv = nullptr;
  decltype(&ncclAlltoAll) all_to_all = nullptr;
  decltype(&ncclCommRegister) register_buffer = nullptr;
  decltype(&ncclCommDeregister) deregister_buffer = nullptr;
  decltype(&ncclCommWindowRegister) register_window = nullptr;
  decltype(&ncclCommWindowDeregister) deregister_window = nullptr;

 private:
  template <class Function>
  void find(void* handle, const char* name, Function& function) const;
};

}  // namespace dit
