#include "device/choose_wire.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "device/device_error.hpp"
#include "device/host_wire.hpp"
#include "device/nccl_wire.hpp"
#include "device/pipe_wire.hpp"
#include "device/places.hpp"
#include "device/socket_mesh.hpp"
#include "device/socket_messenger.hpp"
#include "files/environment.hpp"

namespace tapa::device {

namespace {

/// Channels of two ranks: one thread moves those over MPI, and each of the others has a thread of its own.
constexpr int kMpiChannels = 2;
constexpr int kSocketChannels = 4;

/// Tries wires one after the other, in agreement, and keeps why they could not be.
class Choice {
 public:
  Choice(const Agreement& agreement, const Others& others, const MessageOffer& offer, LocalState* state,
         Word timeout)
      : agreement_(agreement),
        peers_(others.ranks),
        on_this_host_(others.on_this_host),
        offer_(offer),
        state_(state),
        timeout_(timeout) {}

  std::unique_ptr<Wire> host() {
    return attempt("host", [&]() -> std::unique_ptr<Wire> {
      agreement_.together([&] {
        PipeTable::check_peers(peers_.size());
        if (!on_this_host_) throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "ranks are on several hosts");
      });
      return std::make_unique<HostWire>(agreement_, peers_, state_, timeout_);
    });
  }

  std::unique_ptr<Wire> nccl() {
    return attempt("nccl", [&]() -> std::unique_ptr<Wire> {
      std::unique_ptr<NcclLibrary> library;
      agreement_.together([&] { library = std::make_unique<NcclLibrary>(); });
      check_own_gpus();
      return std::make_unique<NcclWire>(agreement_, peers_, std::move(library), state_, timeout_);
    });
  }

  std::unique_ptr<Wire> sockets() {
    return attempt("sockets", [&]() -> std::unique_ptr<Wire> {
      agreement_.together([&] { PipeTable::check_peers(peers_.size()); });
      const PipeShape shape = pipe_shape(agreement_.size(), kSocketChannels);
      SocketMesh mesh = connect_peers(agreement_, peers_, shape.channels);
      std::unique_ptr<Wire> wire;
      agreement_.together([&] {
        PipeMessengers messengers{"sockets (", {}};
        for (std::vector<PeerSocket>& some : mesh.by_channel)
          messengers.each.push_back(std::make_unique<SocketMessenger>(std::move(some), mesh.interfaces));
        wire = pipes(std::move(messengers), shape, false);
      });
      return wire;
    });
  }

  std::unique_ptr<Wire> over_mpi(const char* name, bool on_device) {
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
        PipeMessengers messengers{on_device ? "mpi (CUDA-aware, " : "staging (", {}};
        messengers.each.push_back(std::move(messenger));
        wire = pipes(std::move(messengers), pipe_shape(agreement_.size(), kMpiChannels), on_device);
      });
      return wire;
    });
  }

  std::unique_ptr<Wire> make(int wire) {
    switch (wire) {
      case TAPA_DEVICE_WIRE_NCCL:
        return nccl();
      case TAPA_DEVICE_WIRE_MPI:
        return over_mpi("mpi", true);
      case TAPA_DEVICE_WIRE_STAGING:
        return over_mpi("staging", false);
      case TAPA_DEVICE_WIRE_HOST:
        return host();
      default:
        return sockets();
    }
  }

  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  std::unique_ptr<Wire> pipes(PipeMessengers messengers, const PipeShape& shape, bool on_device) {
    return std::make_unique<PipeWire>(agreement_.size(), peers_, std::move(messengers), shape, on_device,
                                      state_, timeout_);
  }

  template <class Make>
  std::unique_ptr<Wire> attempt(const char* name, const Make& make) {
    std::unique_ptr<Wire> made;
    if (const auto failed = agreement_.failure_of([&] { made = make(); })) {
      made.reset();
      why_not_ += (why_not_.empty() ? "" : "; ") + std::string(name) + ": " + failed->what();
    }
    return made;
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
      const char* const host = files::variable("NCCL_HOSTID");
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
  bool on_this_host_;
  const MessageOffer& offer_;
  LocalState* state_;
  Word timeout_;
  std::string why_not_;
};

/// As NCCL_NET names it, in any case.
bool is_socket(std::string_view network) {
  constexpr std::string_view kName = "socket";
  return std::equal(network.begin(), network.end(), kName.begin(), kName.end(),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

/// Whether NCCL or MPI would use something faster than TCP: this machine has RDMA devices, or NCCL is told to
/// use another network. Collective.
bool some_rank_has_fabric(const Agreement& agreement) {
  const auto has_entries = [](const char* kind) {
    std::error_code error;
    return std::filesystem::directory_iterator(std::string("/sys/class/") + kind, error) !=
           std::filesystem::directory_iterator();
  };
  const auto setting = [](const char* name) {
    const char* const value = files::variable(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  const bool verbs = has_entries("infiniband") && setting("NCCL_IB_DISABLE") != "1";
  const bool other = !setting("NCCL_NET").empty() && !is_socket(setting("NCCL_NET"));
  const bool mine = verbs || other || has_entries("cxi") || has_entries("hfi1_user");
  const std::vector<char> all = agreement.gather(static_cast<char>(mine));
  return std::any_of(all.begin(), all.end(), [](char has) { return has != 0; });
}

/// What TAPA_GPU_WIRE asks for, where the program asks for nothing. Throws DeviceError.
int wire_of_environment() {
  const char* const value = files::variable("TAPA_GPU_WIRE");
  const std::string_view word = value == nullptr ? "" : value;
  if (word.empty()) return TAPA_DEVICE_WIRE_AUTO;
  constexpr std::string_view kWords[] = {"auto", "nccl", "mpi", "staging", "sockets", "host"};
  const auto* const found = std::find(std::begin(kWords), std::end(kWords), word);
  if (found != std::end(kWords)) return static_cast<int>(found - std::begin(kWords));
  throw DeviceError(TAPA_DEVICE_ERR_ARG, "TAPA_GPU_WIRE is \"" + std::string(word) +
                                             "\", expected auto, nccl, mpi, staging, sockets or host");
}

/// Ranks use what rank 0 asks for. Collective.
int agree_on_wire(const Agreement& agreement, int wire) {
  agreement.together([&] {
    if (wire == TAPA_DEVICE_WIRE_AUTO) wire = wire_of_environment();
  });
  return agreement.gather(wire)[0];
}

std::vector<int> wires_in_order(int wanted, bool on_this_host, bool fabric) {
  if (wanted != TAPA_DEVICE_WIRE_AUTO) return {wanted};
  if (on_this_host)
    return {TAPA_DEVICE_WIRE_HOST, TAPA_DEVICE_WIRE_NCCL, TAPA_DEVICE_WIRE_SOCKETS, TAPA_DEVICE_WIRE_MPI,
            TAPA_DEVICE_WIRE_STAGING};
  if (fabric)
    return {TAPA_DEVICE_WIRE_NCCL, TAPA_DEVICE_WIRE_MPI, TAPA_DEVICE_WIRE_STAGING, TAPA_DEVICE_WIRE_SOCKETS};
  return {TAPA_DEVICE_WIRE_SOCKETS, TAPA_DEVICE_WIRE_NCCL, TAPA_DEVICE_WIRE_MPI, TAPA_DEVICE_WIRE_STAGING};
}

}  // namespace

std::unique_ptr<Wire> choose_wire(const Agreement& agreement, const Others& others, int wire,
                                  const MessageOffer& offer, LocalState* state, Word timeout) {
  Choice choice(agreement, others, offer, state, timeout);
  wire = agree_on_wire(agreement, wire);
  for (const int which : wires_in_order(wire, others.on_this_host, some_rank_has_fabric(agreement))) {
    if (std::unique_ptr<Wire> found = choice.make(which)) return found;
  }
  throw DeviceError(
      TAPA_DEVICE_ERR_UNSUPPORTED,
      "ranks are on several nodes, or their GPUs do not reach each other, and no wire joins them: " +
          choice.why_not());
}

}  // namespace tapa::device
