#include "rails.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "options.hpp"

namespace tapa::preload {

namespace {

constexpr const char* kInclude = "OMPI_MCA_btl_tcp_if_include";

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> entries;
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    auto entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    if (!entry.empty()) entries.emplace_back(entry);
  }
  return entries;
}

RailDecision leave(std::string why) {
  return {std::nullopt, std::move(why), false};
}

std::uint32_t mask(unsigned bits) {
  return bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits);
}

std::string network_of(const Nic& nic) {
  in_addr address{htonl(nic.address & nic.netmask)};
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address, text, sizeof text);
  return std::string(text) + "/" + std::to_string(__builtin_popcount(nic.netmask));
}

/// Whether a network of the list, such as 10.99.0.0/24, has the address.
bool covers(const std::string& entry, std::uint32_t address) {
  const auto slash = entry.find('/');
  if (slash == std::string::npos) return false;
  unsigned bits = 0;
  const char* const end = entry.data() + entry.size();
  const auto [stop, error] = std::from_chars(entry.data() + slash + 1, end, bits);
  in_addr network{};
  if (error != std::errc() || stop != end || bits > 32) return false;
  if (inet_pton(AF_INET, entry.substr(0, slash).c_str(), &network) != 1) return false;
  return ((ntohl(network.s_addr) ^ address) & mask(bits)) == 0;
}

/// The NICs that an entry of the list, a name or a network, stands for.
std::vector<Nic> nics_of(const std::string& entry, const std::vector<Nic>& up) {
  std::vector<Nic> nics;
  std::copy_if(up.begin(), up.end(), std::back_inserter(nics),
               [&](const Nic& nic) { return nic.name == entry || covers(entry, nic.address); });
  return nics;
}

bool in_one_network(const std::vector<Nic>& nics) {
  return std::all_of(nics.begin(), nics.end(), [&](const Nic& nic) {
    return nic.netmask == nics[0].netmask && ((nic.address ^ nics[0].address) & nic.netmask) == 0;
  });
}

std::vector<std::string> names(const std::vector<Nic>& nics, bool with_networks) {
  std::vector<std::string> texts;
  for (const auto& nic : nics) {
    auto text = nic.name + (with_networks ? " " + network_of(nic) : "");
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<Nic> interfaces_up() {
  std::vector<Nic> nics;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return nics;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool ipv4 = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET;
    const bool usable = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!ipv4 || !usable || entry->ifa_netmask == nullptr) continue;
    const auto number = [](const sockaddr* address) {
      return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    };
    nics.push_back({entry->ifa_name, number(entry->ifa_addr), number(entry->ifa_netmask)});
  }
  freeifaddrs(list);
  return nics;
}

std::optional<std::string> variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<int> number(const std::optional<std::string>& text) {
  if (!text || text->empty() || text->size() > 6 ||
      text->find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoi(*text);
}

}  // namespace

RailDecision decide_rail(const RailSituation& situation) {
  const std::string option = situation.option.value_or("auto");
  if (option == "off") return leave("TAPA_RAILS=off");
  if (option != "auto" && option != "on") {
    return {std::nullopt, "TAPA_RAILS=" + option + ": expected auto, on or off", true};
  }
  if (!situation.local_rank)
    return leave("OMPI_COMM_WORLD_LOCAL_RANK is not set: not started by Open MPI's mpirun");
  const auto listed = split(situation.include.value_or(""));
  if (listed.empty()) {
    const auto up = names(situation.up, false);
    if (up.size() < 2) return leave("this node has one NIC");
    return leave("this node has several NICs (" + join(up) + "): list those that reach the other nodes in " +
                 kInclude + " to have each rank keep to one of them");
  }
  std::vector<std::string> usable;
  std::vector<Nic> nics;
  for (const auto& entry : listed) {
    const auto found = nics_of(entry, situation.up);
    if (found.empty()) continue;
    usable.push_back(entry);
    nics.insert(nics.end(), found.begin(), found.end());
  }
  if (usable.size() < 2) return leave(std::string(kInclude) + " names one NIC that is up");
  if (option == "auto" && !in_one_network(nics)) {
    return leave("the NICs of " + std::string(kInclude) + " are in networks of their own (" +
                 join(names(nics, true)) +
                 "), so that ranks on different ones may not reach each other; TAPA_RAILS=on if they do");
  }
  const auto mine = static_cast<std::size_t>(*situation.local_rank) % usable.size();
  return {usable[mine], "ranks of this node keep to one NIC each, in turn: " + join(usable), false};
}

void pin_to_rail() {
  const RailSituation situation{variable("TAPA_RAILS"), variable(kInclude),
                                number(variable("OMPI_COMM_WORLD_LOCAL_RANK")), interfaces_up()};
  const auto decision = decide_rail(situation);
  if (decision.include) setenv(kInclude, decision.include->c_str(), 1);
  if (situation.local_rank.value_or(0) != 0) return;  // one voice for each node
  if (decision.wrong_option) {
    say("%s", decision.why.c_str());
  } else {
    log_info("rails: %s", decision.why.c_str());
  }
}

}  // namespace tapa::preload
