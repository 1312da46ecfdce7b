/// @file
/// Messages between nodes by MPI, from a thread of the library's own.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/messenger.hpp"

namespace tapa::device {

class MpiMessenger final : public Messenger {
 public:
  /// On a communicator of its own of the ranks of `comm`; collective. Precondition: why_no_messages() is "".
  /// Throws DeviceError, and std::bad_alloc on all ranks where one has no memory.
  [[nodiscard]] static std::unique_ptr<MpiMessenger> of(MPI_Comm comm);
  MpiMessenger() = default;  ///< for of()
  /// Collective after a life without errors: frees that.
  ~MpiMessenger() override;

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool takes_device_memory() const override;
  /// In MPI_Finalize.
  void at_end(std::function<void()> begin, std::function<void()> end) override;
  void provide(std::size_t requests) override;
  void send(std::size_t request, Address address, const void* memory, std::size_t bytes) override;
  void receive(std::size_t request, Address address, void* memory, std::size_t bytes) override;
  void progress() override;
  [[nodiscard]] bool done(std::size_t request) const override {
    return requests_[request] == MPI_REQUEST_NULL;
  }
  void abandon() override;

 private:
  void check(int code, const char* call, int peer) const;
  void cancel_receives();
  void finish_sends();

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
  std::vector<bool> receives_;  ///< whether a request is one
  std::vector<int> finished_;   ///< indices, for MPI_Testsome
  std::function<void()> stop_;  ///< hangs on MPI_COMM_SELF, which MPI_Finalize frees first
  int keyval_ = MPI_KEYVAL_INVALID;
  bool clean_ = true;  ///< all ranks have ended their messages
};

/// Why messages cannot be sent from a thread of the library's own; "" when they can.
[[nodiscard]] std::string why_no_messages();

}  // namespace tapa::device
