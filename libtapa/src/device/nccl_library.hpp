/// @file
/// The functions of NCCL that a wire needs, from the library that is there when the program runs. What is
/// declared here has been NCCL's binary interface since 2.7, so that no header is needed to build.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

namespace tapa::device {

struct NcclCommunicator;  ///< ncclComm

/// ncclUniqueId, by value as NCCL takes it.
struct NcclId {
  char internal[128];
};

class NcclLibrary {
 public:
  /// Loads libnccl.so.2, or finds the one that the program has loaded. Throws DeviceError
  /// (TAPA_DEVICE_ERR_UNSUPPORTED) with the loader's words.
  NcclLibrary();
  ~NcclLibrary() = default;  // stays loaded: its threads may still run
  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;

  /// "2.28.9"
  [[nodiscard]] std::string version() const;
  [[nodiscard]] NcclId make_id() const;
  /// Collective over the ranks of the id.
  [[nodiscard]] NcclCommunicator* join(const NcclId& id, int rank, int size) const;
  /// Waits for all that was put on streams.
  void destroy(NcclCommunicator* communicator) const;
  /// Ends what is under way. From any thread.
  void abort(NcclCommunicator* communicator) const;
  /// What has gone wrong beside its calls; 0: nothing. From any thread.
  [[nodiscard]] int error_of(NcclCommunicator* communicator) const;
  [[nodiscard]] std::string text_of(int error) const;

  void begin_group() const;
  void end_group() const;
  void send(const void* memory, std::size_t bytes, int peer, NcclCommunicator* communicator,
            cudaStream_t stream) const;
  void receive(void* memory, std::size_t bytes, int peer, NcclCommunicator* communicator,
               cudaStream_t stream) const;

 private:
  void check(int code, const char* call) const;

  static constexpr int kBytes = 0;  ///< ncclInt8
  int (*version_)(int*);
  int (*make_id_)(NcclId*);
  int (*join_)(NcclCommunicator**, int, NcclId, int);
  int (*destroy_)(NcclCommunicator*);
  int (*abort_)(NcclCommunicator*);
  int (*async_error_)(NcclCommunicator*, int*);
  int (*begin_group_)();
  int (*end_group_)();
  int (*send_)(const void*, std::size_t, int, int, NcclCommunicator*, cudaStream_t);
  int (*receive_)(void*, std::size_t, int, int, NcclCommunicator*, cudaStream_t);
  const char* (*error_text_)(int);
};

}  // namespace tapa::device
