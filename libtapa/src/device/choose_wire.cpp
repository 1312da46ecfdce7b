#include "device/choose_wire.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "device/device_error.hpp"
#include "device/nccl_wire.hpp"
#include "device/pipe_wire.hpp"
#include "device/places.hpp"

namespace tapa::device {

namespace {

/// Tries wires one after the other, in agreement, and keeps why they could not be.
class Choice {
 public:
  Choice(const Agreement& agreement, const std::vector<int>& peers, const MessageOffer& offer,
         LocalState* state, Word timeout)
      : agreement_(agreement), peers_(peers), offer_(offer), state_(state), timeout_(timeout) {}

  std::unique_ptr<Wire> nccl() {
    return attempt("nccl", [&]() -> std::unique_ptr<Wire> {
      std::unique_ptr<NcclLibrary> library;
      agreement_.together([&] { library = std::make_unique<NcclLibrary>(); });
      check_own_gpus();
      return std::make_unique<NcclWire>(agreement_, peers_, std::move(library), state_, timeout_);
    });
  }

  std::unique_ptr<Wire> over_messages(const char* name, bool on_device) {
    return attempt(name, [&]() -> std::unique_ptr<Wire> {
      std::unique_ptr<Messenger> messenger;
      agreement_.together([&] {
        if (!offer_.make) throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, offer_.why_not);
      });
      agreement_.together([&] { messenger = offer_.make(); });
      std::unique_ptr<Wire> wire;
      agreement_.together([&] {
        if (on_device && !messenger->takes_device_memory()) {
          throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                            messenger->describe() + " does not say that it is CUDA-aware");
        }
        wire =
            std::make_unique<PipeWire>(agreement_, peers_, std::move(messenger), on_device, state_, timeout_);
      });
      return wire;
    });
  }

  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  template <class Make>
  std::unique_ptr<Wire> attempt(const char* name, const Make& make) {
    try {
      return make();
    } catch (const DeviceError& error) {
      if (error.code() == TAPA_DEVICE_ERR_ALLGATHER) throw;
      why_not_ += (why_not_.empty() ? "" : "; ") + std::string(name) + ": " + error.what();
      return nullptr;
    }
  }

  /// NCCL joins no two ranks on one GPU of a host, and does not end well where somebody tries. What it takes
  /// for a host NCCL_HOSTID may say.
  void check_own_gpus() {
    struct Gpu {
      std::array<char, 128> host;
      std::array<char, 64> bus;
    };
    Gpu mine{};
    agreement_.together([&] {
      int device = 0;
      check_cuda(cudaGetDevice(&device), "cudaGetDevice");
      check_cuda(cudaDeviceGetPCIBusId(mine.bus.data(), static_cast<int>(mine.bus.size()), device),
                 "cudaDeviceGetPCIBusId");
      const char* const host = std::getenv("NCCL_HOSTID");
      std::snprintf(mine.host.data(), mine.host.size(), "%s",
                    host != nullptr ? host : boot_of_machine().c_str());
    });
    const std::vector<Gpu> all = agreement_.gather(mine);
    for (std::size_t one = 0; one < all.size(); ++one) {
      for (std::size_t other = 0; other < one; ++other) {
        if (all[one].host != all[other].host || all[one].bus != all[other].bus) continue;
        throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "ranks " + std::to_string(other) + " and " +
                                                           std::to_string(one) +
                                                           " share a GPU, which NCCL does not take");
      }
    }
  }

  const Agreement& agreement_;
  const std::vector<int>& peers_;
  const MessageOffer& offer_;
  LocalState* state_;
  Word timeout_;
  std::string why_not_;
};

}  // namespace

std::unique_ptr<Wire> choose_wire(const Agreement& agreement, const std::vector<int>& peers, int wire,
                                  const MessageOffer& offer, LocalState* state, Word timeout) {
  Choice choice(agreement, peers, offer, state, timeout);
  const auto wanted = [wire](int which) { return wire == which || wire == TAPA_DEVICE_WIRE_AUTO; };
  std::unique_ptr<Wire> found;
  if (wanted(TAPA_DEVICE_WIRE_NCCL)) found = choice.nccl();
  if (found == nullptr && wanted(TAPA_DEVICE_WIRE_MPI)) found = choice.over_messages("mpi", true);
  if (found == nullptr && wanted(TAPA_DEVICE_WIRE_STAGING)) found = choice.over_messages("staging", false);
  if (found != nullptr) return found;
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                    "ranks are on several nodes and no wire joins them: " + choice.why_not());
}

}  // namespace tapa::device
