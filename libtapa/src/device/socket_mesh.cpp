#include "device/socket_mesh.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "device/device_error.hpp"
#include "device/socket_interfaces.hpp"

namespace tapa::device {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNext = std::chrono::milliseconds(500);  ///< until another address is tried beside
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr int kStrangers = 256;  ///< connections at most that have not said who they are

/// A connection that this rank makes.
struct Call {
  std::size_t address;  ///< which of the callee's
  Clock::time_point late;
  CallerHandshake handshake;
  Descriptor socket;
  bool connected = false;
};

/// A rank that this one calls: by one connection at each of its addresses, until one of them is answered, and
/// by the connections of the other channels there.
struct Callee {
  int peer;
  std::vector<SocketAddress> addresses;
  std::vector<std::string> why;  ///< what became of each address
  std::vector<Call> calls;
  std::size_t next = 0;  ///< address to be tried
  Clock::time_point when{};
  int channel = 0;  ///< that is being connected
};

/// A connection that another has made to this rank.
struct Caller {
  Descriptor socket;
  Clock::time_point late;
  CalledHandshake handshake;
};

class Mesh {
 public:
  Mesh(const Agreement& agreement, const std::vector<int>& peers, int channels,
       std::chrono::milliseconds timeout)
      : agreement_(agreement), peers_(peers), channels_(channels), timeout_(timeout) {
    mesh_.by_channel.resize(static_cast<std::size_t>(channels));
  }

  SocketMesh connect() {
    SocketContact mine{};
    agreement_.together([&] { mine = open(); });
    contacts_ = agreement_.gather(mine);
    std::string not_reached, not_called;
    agreement_.together([&] {
      find_callees();
      const auto until = Clock::now() + timeout_;
      while (!complete() && Clock::now() < until) turn();
      not_reached = who_is_not_reached();
      not_called = who_has_not_called();
    });
    // Who calls in vain knows more than who waits.
    for (const std::string* const words : {&not_reached, &not_called}) {
      agreement_.together([&] {
        if (!words->empty()) throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, *words);
      });
    }
    return std::move(mesh_);
  }

 private:
  SocketContact open() {
    const std::string wanted = wanted_interfaces();
    interfaces_ = choose_interfaces(list_interfaces(), wanted);
    SocketContact mine{};
    mine.token = random_number();
    digest_.emplace();
    for (const SocketInterface& each : interfaces_) {
      if (mine.count == static_cast<int>(mine.addresses.size())) break;
      offer(mine, each);
    }
    if (mine.count > 0) return mine;
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                      wanted.empty() ? std::string("no network interface is up")
                                     : "no network interface that is up is named by TAPA_SOCKET_IFNAME or "
                                       "NCCL_SOCKET_IFNAME = \"" +
                                           wanted + "\"");
  }

  void offer(SocketContact& mine, const SocketInterface& interface) {
    SocketAddress at{};
    Descriptor listening = listen_at(interface.address, at);
    if (!listening.is_open()) return;
    listening_.push_back(std::move(listening));
    mine.addresses[static_cast<std::size_t>(mine.count++)] = at;
    mesh_.interfaces += (mesh_.interfaces.empty() ? "" : ", ") + interface.name + " " + text_of(at);
  }

  void find_callees() {
    for (const int peer : peers_) {
      if (peer > agreement_.rank()) continue;
      Callee callee{peer, addresses_of(peer), {}, {}, 0, Clock::now(), 0};
      callee.why.resize(callee.addresses.size());
      callees_.push_back(std::move(callee));
    }
  }

  /// Addresses of a peer: those on a network of this rank's first, and last such as are this rank's own:
  /// where they are another machine's, too, they are not the way to it.
  [[nodiscard]] std::vector<SocketAddress> addresses_of(int peer) const {
    const SocketContact& contact = contacts_[static_cast<std::size_t>(peer)];
    std::vector<SocketAddress> all(contact.addresses.begin(), contact.addresses.begin() + contact.count);
    const auto some_interface = [&](const auto& holds) {
      return std::any_of(interfaces_.begin(), interfaces_.end(), holds);
    };
    const auto rank = [&](const SocketAddress& address) {
      if (some_interface([&](const SocketInterface& own) { return same_host(own.address, address); }))
        return 2;
      return some_interface([&](const SocketInterface& own) { return on_one_network(own, address); }) ? 0 : 1;
    };
    std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    return all;
  }

  [[nodiscard]] bool complete() const { return who_is_not_reached().empty() && who_has_not_called().empty(); }

  /// Does what can be done now, or waits a moment.
  void turn() {
    for (Callee& callee : callees_) call(callee);
    std::vector<pollfd> wanted;
    for (const Descriptor& each : listening_) wanted.push_back({each.get(), POLLIN, 0});
    for (const Caller& each : callers_) wanted.push_back({each.socket.get(), POLLIN, 0});
    for (const Callee& callee : callees_) {
      for (const Call& each : callee.calls)
        wanted.push_back({each.socket.get(), static_cast<short>(each.connected ? POLLIN : POLLOUT), 0});
    }
    const int ready = ::poll(wanted.data(), wanted.size(), static_cast<int>(kPause.count()));
    if (ready < 0 && errno != EINTR)
      throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, std::string("poll: ") + std::strerror(errno));
    std::erase_if(callers_, [&](Caller& caller) { return !hear(caller); });
    for (Callee& callee : callees_) follow(callee);
    for (const Descriptor& each : listening_) take_from(each);
  }

  /// Begins the calls that are due.
  void call(Callee& callee) {
    if (callee.channel == channels_ || Clock::now() < callee.when) return;
    const std::size_t at = callee.next;
    // The other channels go where the first one was answered.
    if (callee.channel == 0) callee.next = (at + 1) % callee.addresses.size();
    callee.when = Clock::now() + kNext;
    const bool under_way = std::any_of(callee.calls.begin(), callee.calls.end(),
                                       [at](const Call& each) { return each.address == at; });
    if (under_way) return;
    Descriptor socket = begin_connect(callee.addresses[at], callee.why[at]);
    if (!socket.is_open()) return;
    const Pairing pairing{agreement_.rank(), callee.peer, callee.channel};
    callee.calls.push_back(
        {at, limit(), {pairing, contacts_[static_cast<std::size_t>(callee.peer)].token}, std::move(socket)});
  }

  /// What became of the calls of a peer.
  void follow(Callee& callee) {
    for (std::size_t at = 0; at < callee.calls.size();) {
      Call& each = callee.calls[at];
      std::string why;
      const Handshake handshake = proceed(each, why);
      if (handshake == Handshake::done) return answered(callee, at);
      if (handshake == Handshake::under_way) {
        ++at;
        continue;
      }
      callee.why[each.address] = why;
      callee.calls.erase(callee.calls.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  Handshake proceed(Call& call, std::string& why) const {
    if (!call.connected) {
      pollfd ready{call.socket.get(), POLLOUT, 0};
      if (::poll(&ready, 1, 0) > 0) {
        why = end_connect(call.socket);
        if (!why.empty()) return Handshake::failed;
        call.connected = true;
      }
    }
    const Handshake handshake =
        call.connected ? call.handshake.proceed(*digest_, call.socket) : Handshake::under_way;
    why = "no rank of this job answers there, or something on the way translates addresses";
    if (handshake != Handshake::under_way || Clock::now() < call.late) return handshake;
    why = "no answer";
    return Handshake::failed;
  }

  void answered(Callee& callee, std::size_t at) {
    Call call = std::move(callee.calls[at]);
    callee.calls.clear();
    callee.when = Clock::now();
    callee.next = call.address;
    keep(callee.peer, callee.channel++, std::move(call.socket));
  }

  void take_from(const Descriptor& listening) {
    for (int taken = 0; taken < kStrangers; ++taken) {
      Descriptor socket = accept_one(listening);
      if (!socket.is_open()) return;
      forget_stranger();
      Caller caller{std::move(socket), limit(), {agreement_.rank(), own().token}};
      if (hear(caller)) callers_.push_back(std::move(caller));
    }
  }

  /// Makes room when there are many: the first goes that has not shown who it is. A rank says that with its
  /// first words, which are there when it is accepted, or soon after.
  void forget_stranger() {
    const auto is_stranger = [](const Caller& each) { return !each.handshake.knows_caller(); };
    const auto count = std::count_if(callers_.begin(), callers_.end(), is_stranger);
    if (count >= kStrangers) callers_.erase(std::find_if(callers_.begin(), callers_.end(), is_stranger));
  }

  /// False when there is nothing more to hear: it is kept, or turned away.
  bool hear(Caller& caller) {
    const Handshake handshake = caller.handshake.proceed(*digest_, caller.socket);
    if (handshake == Handshake::under_way) return Clock::now() < caller.late;
    const Pairing& pairing = caller.handshake.pairing();
    if (handshake == Handshake::done && expects(pairing))
      keep(pairing.caller, pairing.channel, std::move(caller.socket));
    return false;
  }

  [[nodiscard]] bool expects(const Pairing& pairing) const {
    return std::find(peers_.begin(), peers_.end(), pairing.caller) != peers_.end() &&
           pairing.caller > agreement_.rank() && pairing.channel >= 0 && pairing.channel < channels_;
  }

  /// Until when a connection that begins now may say nothing new: others have their turn.
  [[nodiscard]] Clock::time_point limit() const { return Clock::now() + timeout_ / 4; }

  void keep(int peer, int channel, Descriptor socket) {
    std::vector<PeerSocket>& some = mesh_.by_channel[static_cast<std::size_t>(channel)];
    std::erase_if(some, [peer](const PeerSocket& each) { return each.peer == peer; });
    some.push_back({peer, std::move(socket)});
  }

  [[nodiscard]] std::string who_is_not_reached() const {
    for (const Callee& callee : callees_) {
      if (callee.channel == channels_) continue;
      std::string text = "rank " + std::to_string(callee.peer) + " is not reached at ";
      for (std::size_t at = 0; at < callee.addresses.size(); ++at) {
        const std::string& why = callee.why[at];
        text +=
            (at > 0 ? ", " : "") + text_of(callee.addresses[at]) + ": " + (why.empty() ? "no answer" : why);
      }
      return text + " (TAPA_SOCKET_IFNAME names the interfaces to use)";
    }
    return "";
  }

  [[nodiscard]] std::string who_has_not_called() const {
    for (const int peer : peers_) {
      if (peer < agreement_.rank()) continue;
      for (const auto& some : mesh_.by_channel) {
        if (std::any_of(some.begin(), some.end(), [&](const PeerSocket& each) { return each.peer == peer; }))
          continue;
        return "no call of rank " + std::to_string(peer) + " within " + std::to_string(timeout_.count()) +
               " ms at " + mesh_.interfaces;
      }
    }
    return "";
  }

  [[nodiscard]] const SocketContact& own() const {
    return contacts_[static_cast<std::size_t>(agreement_.rank())];
  }

  const Agreement& agreement_;
  const std::vector<int>& peers_;
  int channels_;
  std::chrono::milliseconds timeout_;
  std::optional<KeyedDigest> digest_;
  std::vector<SocketInterface> interfaces_;
  std::vector<Descriptor> listening_;
  std::vector<SocketContact> contacts_;
  std::vector<Callee> callees_;
  std::vector<Caller> callers_;
  SocketMesh mesh_;
};

}  // namespace

SocketMesh connect_peers(const Agreement& agreement, const std::vector<int>& peers, int channels,
                         std::chrono::milliseconds timeout) {
  return Mesh(agreement, peers, channels, timeout).connect();
}

}  // namespace tapa::device
