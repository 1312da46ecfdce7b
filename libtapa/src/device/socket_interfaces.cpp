#include "device/socket_interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "device/device_error.hpp"
#include "files/environment.hpp"

namespace tapa::device {

namespace {

bool usable(const ifaddrs& entry) {
  constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
  if (entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr || (entry.ifa_flags & kUp) != kUp)
    return false;
  const int family = entry.ifa_addr->sa_family;
  if (family == AF_INET) return true;
  return family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

SocketAddress copy_of(const sockaddr* address) {
  SocketAddress copy{};
  std::memcpy(&copy, address, length_of(*address));
  return copy;
}

/// That of a device, of several that are bonded, or of what lies below (a VLAN).
std::uint64_t speed_of(const std::string& name, int depth = 2) {
  const std::filesystem::path folder = "/sys/class/net/" + name;
  std::error_code error;
  if (std::filesystem::exists(folder / "device", error) ||
      std::filesystem::exists(folder / "bonding", error)) {
    std::ifstream file(folder / "speed");
    long long speed = 0;
    return file >> speed && speed > 0 ? static_cast<std::uint64_t>(speed) : 0;
  }
  constexpr std::string_view kBelow = "lower_";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    if (depth > 0 && file.starts_with(kBelow)) return speed_of(file.substr(kBelow.size()), depth - 1);
  }
  return 0;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) parts.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

/// What leads to no other machine, as a rule.
bool is_local(const SocketInterface& each) {
  const bool unassigned =
      each.address.any.sa_family == AF_INET && ntohl(each.address.v4.sin_addr.s_addr) >> 16 == 0xa9fe;
  return unassigned || each.name.starts_with("docker") || each.name.starts_with("virbr");
}

std::vector<SocketInterface> fastest_first(std::vector<SocketInterface> some) {
  std::stable_sort(some.begin(), some.end(),
                   [](const SocketInterface& a, const SocketInterface& b) { return a.speed > b.speed; });
  return some;
}

template <class Keep>
std::vector<SocketInterface> those(const std::vector<SocketInterface>& all, const Keep& keep) {
  std::vector<SocketInterface> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), keep);
  return some;
}

std::vector<SocketInterface> unasked(const std::vector<SocketInterface>& all) {
  std::vector<SocketInterface> some =
      those(all, [](const SocketInterface& each) { return !each.loopback && !is_local(each); });
  if (some.empty()) some = those(all, [](const SocketInterface& each) { return !each.loopback; });
  return fastest_first(some.empty() ? all : some);
}

}  // namespace

std::vector<SocketInterface> list_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, std::string("getifaddrs: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  std::vector<SocketInterface> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (!usable(*entry)) continue;
    SocketAddress netmask = copy_of(entry->ifa_netmask);
    netmask.any.sa_family = entry->ifa_addr->sa_family;
    found.push_back({entry->ifa_name, copy_of(entry->ifa_addr), netmask,
                     (entry->ifa_flags & IFF_LOOPBACK) != 0, speed_of(entry->ifa_name)});
  }
  return found;
}

std::string wanted_interfaces() {
  for (const char* const name : {"TAPA_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const char* const value = files::variable(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

std::vector<SocketInterface> choose_interfaces(const std::vector<SocketInterface>& all,
                                               std::string_view wanted) {
  if (wanted.empty()) return unasked(all);
  const bool others = wanted.front() == '^';
  if (others) wanted.remove_prefix(1);
  const bool whole = !wanted.empty() && wanted.front() == '=';
  if (whole) wanted.remove_prefix(1);
  const std::vector<std::string_view> names = split(wanted);
  const auto is = [whole](const SocketInterface& each, std::string_view name) {
    return whole ? each.name == name : std::string_view(each.name).starts_with(name);
  };
  if (others) {
    return fastest_first(those(all, [&](const SocketInterface& each) {
      return !each.loopback &&
             std::none_of(names.begin(), names.end(), [&](std::string_view name) { return is(each, name); });
    }));
  }
  std::vector<SocketInterface> chosen;
  for (const std::string_view name : names) {
    for (const SocketInterface& each : all)
      if (is(each, name)) chosen.push_back(each);
  }
  return chosen;
}

bool on_one_network(const SocketInterface& own, const SocketAddress& other) {
  if (own.address.any.sa_family != other.any.sa_family) return false;
  const auto mine = host_of(own.address), mask = host_of(own.netmask), theirs = host_of(other);
  for (std::size_t at = 0; at < mine.size(); ++at)
    if (((mine[at] ^ theirs[at]) & mask[at]) != 0) return false;
  return true;
}

}  // namespace tapa::device
