#include "device/socket_mesh.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>

#include "device/device_error.hpp"
#include "device/socket_interfaces.hpp"

namespace tapa::device {

namespace {

constexpr auto kAll = std::chrono::seconds(30);        ///< for all connections of a rank
constexpr auto kOneAddress = std::chrono::seconds(3);  ///< until another one is tried
constexpr auto kStranger = std::chrono::seconds(1);    ///< for who connects and says nothing
constexpr std::size_t kAddresses = 4;

using Token = std::array<std::uint8_t, 16>;

/// How a rank can be reached. Plain data: ranks give it to each other.
struct Contact {
  Token token;
  SocketAddress addresses[kAddresses];
  int count;
};
/// What the end that connects says first; the other end answers with the first one's token.
struct Hello {
  Token token;  ///< of who is called
  int rank;
  int channel;
};

Token new_token() {
  Token token{};
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "getrandom gives no random bytes");
  return token;
}

bool has_family(const std::vector<SocketInterface>& some, int family) {
  return std::any_of(some.begin(), some.end(),
                     [family](const SocketInterface& each) { return each.address.any.sa_family == family; });
}

class Mesh {
 public:
  Mesh(const Agreement& agreement, const std::vector<int>& peers, int channels)
      : agreement_(agreement), peers_(peers), channels_(channels), until_(SocketClock::now() + kAll) {
    mesh_.by_channel.resize(static_cast<std::size_t>(channels));
  }

  SocketMesh connect() {
    agreement_.together([&] { find_interfaces(); });
    const int family = common_family();
    Contact mine{};
    agreement_.together([&] { mine = open(family); });
    contacts_ = agreement_.gather(mine);
    agreement_.together([&] {
      for (const int peer : peers_)
        if (peer < agreement_.rank()) call(peer);
      take_calls();
    });
    return std::move(mesh_);
  }

 private:
  void find_interfaces() {
    const std::string wanted = wanted_interfaces();
    interfaces_ = choose_interfaces(list_interfaces(), wanted);
    if (!interfaces_.empty()) return;
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                      wanted.empty() ? std::string("no network interface is up")
                                     : "no network interface is named by TAPA_SOCKET_IFNAME or "
                                       "NCCL_SOCKET_IFNAME = \"" +
                                           wanted + "\"");
  }

  /// IPv4 where all ranks have it.
  [[nodiscard]] int common_family() const {
    struct Families {
      bool v4, v6;
    };
    const auto all =
        agreement_.gather(Families{has_family(interfaces_, AF_INET), has_family(interfaces_, AF_INET6)});
    if (std::all_of(all.begin(), all.end(), [](const Families& each) { return each.v4; })) return AF_INET;
    if (std::all_of(all.begin(), all.end(), [](const Families& each) { return each.v6; })) return AF_INET6;
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                      "some ranks have no IPv4 address and others no IPv6 address");
  }

  Contact open(int family) {
    std::erase_if(interfaces_,
                  [family](const SocketInterface& each) { return each.address.any.sa_family != family; });
    if (interfaces_.size() > kAddresses) interfaces_.resize(kAddresses);
    std::uint16_t port = 0;
    listening_ = listen_anywhere(family, port);
    Contact mine{};
    mine.token = new_token();
    for (const SocketInterface& each : interfaces_) {
      SocketAddress address = each.address;
      (family == AF_INET ? address.v4.sin_port : address.v6.sin6_port) = htons(port);
      mine.addresses[mine.count++] = address;
      mesh_.interfaces += (mesh_.interfaces.empty() ? "" : ", ") + each.name + " " + text_of(address);
    }
    return mine;
  }

  /// Addresses of a peer, those on a network of this rank's first.
  [[nodiscard]] std::vector<SocketAddress> addresses_of(int peer) const {
    const Contact& contact = contacts_[static_cast<std::size_t>(peer)];
    std::vector<SocketAddress> all(contact.addresses, contact.addresses + contact.count);
    std::stable_partition(all.begin(), all.end(), [&](const SocketAddress& address) {
      return std::any_of(interfaces_.begin(), interfaces_.end(),
                         [&](const SocketInterface& own) { return on_one_network(own, address); });
    });
    return all;
  }

  void call(int peer) {
    std::string why;
    for (const SocketAddress& address : addresses_of(peer)) {
      int channel = 0;
      while (channel < channels_) {
        Socket socket = call(peer, channel, address, why);
        if (socket.get() < 0) break;
        keep(peer, channel++, std::move(socket));
      }
      if (channel == channels_) return;
      for (auto& some : mesh_.by_channel)
        std::erase_if(some, [peer](const PeerSocket& each) { return each.peer == peer; });
    }
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "rank " + std::to_string(peer) + " is not reached at " +
                                                       why +
                                                       " (TAPA_SOCKET_IFNAME names the interfaces to use)");
  }

  /// One connection; without a socket where another answers, or nobody.
  Socket call(int peer, int channel, const SocketAddress& address, std::string& why) const {
    std::string reason;
    const auto soon = std::min(until_, SocketClock::now() + kOneAddress);
    Socket socket = connect_to(address, soon, reason);
    if (socket.get() >= 0) {
      const Hello hello{contacts_[static_cast<std::size_t>(peer)].token, agreement_.rank(), channel};
      Token answer{};
      // The peer may still be calling others.
      if (write_all(socket, &hello, sizeof(hello), soon) &&
          read_all(socket, answer.data(), answer.size(), until_) && answer == own().token) {
        return socket;
      }
      reason = text_of(address) + ": no answer of that rank";
    }
    why += (why.empty() ? "" : ", ") + reason;
    return {};
  }

  /// The calls of all peers with higher ranks.
  void take_calls() {
    auto missing = static_cast<std::size_t>(
        std::count_if(peers_.begin(), peers_.end(), [&](int peer) { return peer > agreement_.rank(); }));
    missing *= static_cast<std::size_t>(channels_);
    while (missing > 0) {
      Socket socket = accept_one(listening_, until_);
      if (socket.get() < 0) throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, who_is_missing());
      if (take(std::move(socket))) --missing;
    }
  }

  bool take(Socket socket) {
    const auto soon = std::min(until_, SocketClock::now() + kStranger);
    Hello hello{};
    if (!read_all(socket, &hello, sizeof(hello), soon) || hello.token != own().token) return false;
    const bool expected = std::find(peers_.begin(), peers_.end(), hello.rank) != peers_.end() &&
                          hello.rank > agreement_.rank() && hello.channel >= 0 && hello.channel < channels_;
    if (!expected) return false;
    const Token& answer = contacts_[static_cast<std::size_t>(hello.rank)].token;
    if (!write_all(socket, answer.data(), answer.size(), soon)) return false;
    return keep(hello.rank, hello.channel, std::move(socket));
  }

  /// True when it is a new one: who found no answer here before calls again.
  bool keep(int peer, int channel, Socket socket) {
    std::vector<PeerSocket>& some = mesh_.by_channel[static_cast<std::size_t>(channel)];
    const auto known =
        std::find_if(some.begin(), some.end(), [peer](const PeerSocket& each) { return each.peer == peer; });
    if (known != some.end()) {
      known->socket = std::move(socket);
      return false;
    }
    some.push_back({peer, std::move(socket)});
    return true;
  }

  [[nodiscard]] std::string who_is_missing() const {
    std::string ranks;
    for (const int peer : peers_) {
      if (peer < agreement_.rank()) continue;
      for (const auto& some : mesh_.by_channel) {
        if (std::any_of(some.begin(), some.end(), [&](const PeerSocket& each) { return each.peer == peer; }))
          continue;
        ranks += (ranks.empty() ? "" : ", ") + std::to_string(peer);
        break;
      }
    }
    return "no call of rank " + ranks + " within " + std::to_string(kAll.count()) + " s at " +
           mesh_.interfaces;
  }

  [[nodiscard]] const Contact& own() const { return contacts_[static_cast<std::size_t>(agreement_.rank())]; }

  const Agreement& agreement_;
  const std::vector<int>& peers_;
  int channels_;
  SocketClock::time_point until_;
  std::vector<SocketInterface> interfaces_;
  Socket listening_;
  std::vector<Contact> contacts_;
  SocketMesh mesh_;
};

}  // namespace

SocketMesh connect_peers(const Agreement& agreement, const std::vector<int>& peers, int channels) {
  return Mesh(agreement, peers, channels).connect();
}

}  // namespace tapa::device
