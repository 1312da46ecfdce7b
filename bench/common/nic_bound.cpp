#include "nic_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tapa::bench {

namespace {

[[noreturn]] void reject(const std::string& text) {
  throw std::invalid_argument(
      "NIC rate '" + text +
      "': expected [COUNTx]NUMBER and a unit of tc (bit, kbit, mbit, gbit, bps, kbps, mbps, "
      "gbps), for example 100mbit or 2x20mbit");
}

double unit_bytes(const std::string& unit, const std::string& text) {
  static constexpr std::array<std::pair<const char*, double>, 8> units{{{"bit", 1 / 8.0},
                                                                        {"kbit", 1e3 / 8},
                                                                        {"mbit", 1e6 / 8},
                                                                        {"gbit", 1e9 / 8},
                                                                        {"bps", 1},
                                                                        {"kbps", 1e3},
                                                                        {"mbps", 1e6},
                                                                        {"gbps", 1e9}}};
  const auto* found =
      std::find_if(units.begin(), units.end(), [&](const auto& u) { return unit == u.first; });
  if (found == units.end()) {
    reject(text);
  }
  return found->second;
}

}  // namespace

NicRate parse_nic_rate(const std::string& text) {
  NicRate rate;
  std::string rest = text;
  if (const auto x = text.find('x'); x != std::string::npos && text.find('=') == std::string::npos) {
    char* end = nullptr;
    const long nics = std::strtol(text.c_str(), &end, 10);
    if (end != text.c_str() + x || x == 0 || nics < 1 || nics > 1024) {
      reject(text);
    }
    rate.nics = static_cast<int>(nics);
    rest = text.substr(x + 1);
  } else if (text.find(',') != std::string::npos) {
    rate.nics = 1;
  }
  std::istringstream list(rest);
  std::string entry;
  while (std::getline(list, entry, ',')) {
    entry.erase(0, entry.find('=') + 1);  // npos + 1 is 0
    char* end = nullptr;
    const double number = std::strtod(entry.c_str(), &end);
    if (end == entry.c_str() || !std::isfinite(number) || number <= 0) {
      reject(text);
    }
    rate.bytes_per_second += number * unit_bytes(end, text);
  }
  if (rate.bytes_per_second <= 0) {
    reject(text);
  }
  return rate;
}

int count_nics(const char* interfaces) {
  const std::string text = interfaces == nullptr ? "" : interfaces;
  if (text.empty() || text[0] == '^' || text.find('/') != std::string::npos) {
    return 1;
  }
  return static_cast<int>(std::count(text.begin(), text.end(), ',')) + 1;
}

int packet_of_nic(const char* interfaces) {
  const std::string list = interfaces == nullptr ? "" : interfaces;
  int packet = 0;
  std::ifstream("/sys/class/net/" + list.substr(0, list.find(',')) + "/mtu") >> packet;
  return packet >= 576 ? packet : NicRate{}.packet;  // IPv4's least
}

int segment_bytes(int packet) {
  return packet - 52;
}

double wire_bytes(double payload, int packet) {
  constexpr double headers = 66;
  return payload + std::ceil(payload / segment_bytes(packet)) * headers;
}

double nic_bound_seconds(const std::vector<int>& node_of, const NicRate& rate,
                         const std::function<std::size_t(int, int)>& bytes) {
  const int ranks = static_cast<int>(node_of.size());
  const int nodes = ranks == 0 ? 0 : *std::max_element(node_of.begin(), node_of.end()) + 1;
  std::vector<double> out(static_cast<std::size_t>(nodes), 0.0);
  std::vector<double> in = out;
  for (int src = 0; src < ranks; ++src) {
    for (int dst = 0; dst < ranks; ++dst) {
      const auto from = static_cast<std::size_t>(node_of[static_cast<std::size_t>(src)]);
      const auto to = static_cast<std::size_t>(node_of[static_cast<std::size_t>(dst)]);
      if (from != to) {
        out[from] += static_cast<double>(bytes(src, dst));
        in[to] += static_cast<double>(bytes(src, dst));
      }
    }
  }
  double most = 0;
  for (std::size_t node = 0; node < out.size(); ++node) {
    most = std::max({most, out[node], in[node]});
  }
  return wire_bytes(most, rate.packet) / (rate.bytes_per_second * rate.nics);
}

}  // namespace tapa::bench
