#include "rails.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "library.hpp"

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

std::vector<std::string> interfaces_up() {
  std::vector<std::string> names;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool ipv4 = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET;
    const bool usable = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (ipv4 && usable && std::find(names.begin(), names.end(), entry->ifa_name) == names.end()) {
      names.emplace_back(entry->ifa_name);
    }
  }
  freeifaddrs(list);
  return names;
}

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
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
  if (option != "auto") return {std::nullopt, "TAPA_RAILS=" + option + ": expected auto or off", true};
  if (!situation.local_rank)
    return leave("OMPI_COMM_WORLD_LOCAL_RANK is not set: not started by Open MPI's mpirun");
  const auto listed = split(situation.include.value_or(""));
  if (listed.empty()) {
    if (situation.up.size() < 2) return leave("this node has one NIC");
    return leave("this node has several NICs (" + join(situation.up) +
                 "): list those that reach the other nodes in " + kInclude +
                 " to have each rank keep to one of them");
  }
  std::vector<std::string> usable;
  for (const auto& entry : listed) {
    const bool network = entry.find('/') != std::string::npos;
    const bool up = std::find(situation.up.begin(), situation.up.end(), entry) != situation.up.end();
    if (network || up) usable.push_back(entry);
  }
  if (usable.size() < 2) return leave(std::string(kInclude) + " names one NIC that is up");
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
    std::fprintf(stderr, "tapa: %s\n", decision.why.c_str());
  } else {
    log_info("rails: %s", decision.why.c_str());
  }
}

}  // namespace tapa::preload
