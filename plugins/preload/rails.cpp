#include "rails.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <new>

#include "options.hpp"

namespace tapa::preload {

namespace {

constexpr const char* kInclude = "OMPI_MCA_btl_tcp_if_include";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

template <class Act>
void for_each_entry(std::string_view list, Act act) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    const auto entry = trimmed(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (!entry.empty()) act(entry);
  }
}

/// Each word once.
void append(Line& list, std::string_view word) {
  bool there = false;
  for_each_entry(list, [&](std::string_view entry) { there = there || entry == word; });
  if (!there) list.add(list.empty() ? "" : ",", word);
}

RailDecision leave(const Line& why) {
  return {{}, why};
}

std::uint32_t mask(unsigned bits) {
  return bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits);
}

void append_with_network(Line& list, const Nic& nic) {
  in_addr address{htonl(nic.address & nic.netmask)};
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address, text, sizeof text);
  append(list, Line(nic.name).add(" ", text, "/", __builtin_popcount(nic.netmask)));
}

/// Whether a network of the list, such as 10.99.0.0/24, has the address.
bool covers(std::string_view entry, std::uint32_t address) {
  const auto slash = entry.find('/');
  if (slash == std::string_view::npos) return false;
  unsigned bits = 0;
  const char* const end = entry.data() + entry.size();
  const auto [stop, error] = std::from_chars(entry.data() + slash + 1, end, bits);
  in_addr network{};
  if (error != std::errc() || stop != end || bits > 32) return false;
  const Text<INET_ADDRSTRLEN> written = entry.substr(0, slash);
  if (inet_pton(AF_INET, written.c_str(), &network) != 1) return false;
  return ((ntohl(network.s_addr) ^ address) & mask(bits)) == 0;
}

/// Whether an entry of the list, a name or a network, stands for the NIC.
bool stands_for(std::string_view entry, const Nic& nic) {
  return nic.name == entry || covers(entry, nic.address);
}

bool is_up(std::string_view entry, std::span<const Nic> up) {
  return std::any_of(up.begin(), up.end(), [&](const Nic& nic) { return stands_for(entry, nic); });
}

bool same_network(const Nic& one, const Nic& other) {
  return one.netmask == other.netmask && ((one.address ^ other.address) & one.netmask) == 0;
}

/// The NICs that the list stands for.
struct Listed {
  int entries = 0;  ///< of which a NIC is up here
  Line usable;      ///< those entries
  const Nic* first = nullptr;
  bool one_network = true;
  Line networks;  ///< with the NICs that are in them
};

Listed find_listed(const RailSituation& situation) {
  Listed listed;
  for_each_entry(situation.include, [&](std::string_view entry) {
    if (!is_up(entry, situation.up)) return;
    ++listed.entries;
    append(listed.usable, entry);
    for (const Nic& nic : situation.up) {
      if (!stands_for(entry, nic)) continue;
      if (listed.first == nullptr) listed.first = &nic;
      listed.one_network = listed.one_network && same_network(nic, *listed.first);
      append_with_network(listed.networks, nic);
    }
  });
  return listed;
}

RailDecision without_list(std::span<const Nic> up) {
  const auto one_name = [&](const Nic& nic) { return nic.name == up.front().name; };
  if (std::all_of(up.begin(), up.end(), one_name)) return leave("this node has one NIC");
  Line names;
  for (const Nic& nic : up) append(names, nic.name);
  Line why = "this node has several NICs (";
  return leave(why.add(names, "): list those that reach the other nodes in ", kInclude,
                       " to have each rank keep to one of them"));
}

/// The interfaces that are up, while this lives.
class Interfaces {
 public:
  Interfaces() {
    if (getifaddrs(&list_) != 0) return;
    std::size_t most = 0;
    for (const ifaddrs* entry = list_; entry != nullptr; entry = entry->ifa_next) ++most;
    nics_ = static_cast<Nic*>(std::malloc(most * sizeof(Nic)));
    for (const ifaddrs* entry = list_; nics_ != nullptr && entry != nullptr; entry = entry->ifa_next)
      add(*entry);
  }
  Interfaces(const Interfaces&) = delete;
  Interfaces& operator=(const Interfaces&) = delete;
  ~Interfaces() {
    std::free(nics_);
    if (list_ != nullptr) freeifaddrs(list_);
  }
  [[nodiscard]] std::span<const Nic> up() const { return {nics_, size_}; }

 private:
  void add(const ifaddrs& entry) {
    const bool ipv4 = entry.ifa_addr != nullptr && entry.ifa_addr->sa_family == AF_INET;
    const bool usable = (entry.ifa_flags & IFF_UP) != 0 && (entry.ifa_flags & IFF_LOOPBACK) == 0;
    if (!ipv4 || !usable || entry.ifa_netmask == nullptr) return;
    const auto number = [](const sockaddr* address) {
      return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    };
    new (nics_ + size_++) Nic{entry.ifa_name, number(entry.ifa_addr), number(entry.ifa_netmask)};
  }

  ifaddrs* list_ = nullptr;
  Nic* nics_ = nullptr;
  std::size_t size_ = 0;
};

std::string_view variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && stop == text.data() + text.size();
  return whole && value >= 0 ? std::optional<int>(value) : std::nullopt;
}

}  // namespace

RailDecision decide_rail(const RailSituation& situation) {
  const auto option = situation.option.substr(0, situation.option.find(','));
  Line why;
  if (option == "all") return leave("TAPA_NICS=all");
  if (!situation.local_rank)
    return leave("OMPI_COMM_WORLD_LOCAL_RANK is not set: not started by Open MPI's mpirun");
  bool has_list = false;
  for_each_entry(situation.include, [&](std::string_view) { has_list = true; });
  if (!has_list) return without_list(situation.up);
  const auto listed = find_listed(situation);
  if (listed.entries < 2) return leave(why.add(kInclude, " names one NIC that is up"));
  if (option != "each" && !listed.one_network) {
    return leave(
        why.add("the NICs of ", kInclude, " are in networks of their own (", listed.networks,
                "), so that ranks on different ones may not reach each other; TAPA_NICS=each if they do"));
  }
  int turn = *situation.local_rank % listed.entries;
  std::string_view mine;
  for_each_entry(situation.include, [&](std::string_view entry) {
    if (is_up(entry, situation.up) && turn-- == 0) mine = entry;
  });
  return {mine, why.add("ranks of this node keep to one NIC each, in turn: ", listed.usable)};
}

void pin_to_rail() {
  const Interfaces interfaces;
  const RailSituation situation{variable("TAPA_NICS"), variable(kInclude),
                                number(variable("OMPI_COMM_WORLD_LOCAL_RANK")), interfaces.up()};
  const auto decision = decide_rail(situation);
  if (!decision.include.empty()) setenv(kInclude, Line(decision.include).c_str(), 1);
  if (situation.local_rank.value_or(0) == 0)  // one voice for each node
    log_info("rails: %s", decision.why.c_str());
}

}  // namespace tapa::preload
