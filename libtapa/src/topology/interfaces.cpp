#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>

#include "topology/sysfs.hpp"

namespace tapa {

namespace fs = std::filesystem;

namespace {

constexpr int type_ethernet = 1;     // ARPHRD_ETHER
constexpr int type_infiniband = 32;  // ARPHRD_INFINIBAND

int to_int(const std::string& text, int otherwise) {
  int value = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : otherwise;
}

bool is_pci(const std::string& name) {  // 0000:18:00.0
  return name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

/// PCI address of the function that /sys/class/X/Y/device belongs to: a virtio device lies below its
/// function.
std::string pci_of(const fs::path& device) {
  std::error_code error;
  for (fs::path at = fs::canonical(device, error); !error && at.has_relative_path(); at = at.parent_path()) {
    if (is_pci(at.filename().string())) return at.filename().string();
  }
  return {};
}

/// Not by std::filesystem, whose iterator ends a process without memory.
std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  while (const dirent* const entry = open ? ::readdir(open.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

/// Splits a name into its text and its last number: "mlx5_10" -> ("mlx5_", 10).
std::pair<std::string, int> natural(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::size_t digits = last == std::string::npos ? 0 : last + 1;
  return {name.substr(0, digits), to_int(name.substr(digits), -1)};
}

std::optional<Interface> network_interface(const fs::path& entry) {
  const std::string name = entry.filename().string();
  const int type = to_int(read_line(entry / "type"), -1);
  const std::string state = read_line(entry / "operstate");
  if (name == "mgmt" || (type != type_ethernet && type != type_infiniband)) return std::nullopt;
  if (state != "up" && state != "unknown") return std::nullopt;
  if (fs::exists(entry / "bridge") || fs::exists(entry / "brport") || fs::exists(entry / "master")) {
    return std::nullopt;
  }
  Interface found;
  found.nic.name = name;
  found.nic.provider = "tcp";
  if (!fs::exists(entry / "device") && !fs::exists(entry / "bonding")) {
    found.kind = Interface::Kind::virtual_link;  // its "speed" is made up
    return found;
  }
  found.nic.pci = pci_of(entry / "device");
  found.nic.numa = to_int(read_line(entry / "device" / "numa_node"), -1);
  const int megabits = to_int(read_line(entry / "speed"), -1);
  if (megabits > 0) found.nic.bandwidth = megabits * 1e6 / 8;
  return found;
}

std::optional<Interface> rdma_device(const fs::path& entry, const std::string& provider) {
  Interface found;
  found.nic.name = entry.filename().string();
  found.nic.provider = provider;
  found.nic.pci = pci_of(entry / "device");
  found.nic.numa = to_int(read_line(entry / "device" / "numa_node"), -1);
  found.kind = Interface::Kind::fabric;
  if (provider == "cxi") return found;
  const fs::path port = entry / "ports" / "1";
  if (read_line(port / "state").find("ACTIVE") == std::string::npos) return std::nullopt;
  if (read_line(port / "link_layer") == "Ethernet") found.kind = Interface::Kind::roce;
  const int gigabits = to_int(read_line(port / "rate"), -1);  // "400 Gb/sec (4X NDR)"
  if (gigabits > 0) found.nic.bandwidth = gigabits * 1e9 / 8;
  return found;
}

}  // namespace

std::string read_line(const std::string& path) {
  // Not a stream: hundreds of small files are read.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  constexpr std::size_t most = 16384;  // on the heap, as a program's threads may have no more stack
  const auto text = std::make_unique_for_overwrite<char[]>(most);
  const ssize_t length = ::read(file, text.get(), most);
  ::close(file);
  const std::string_view all(text.get(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return std::string(all.substr(0, all.find('\n')));
}

bool has_rdma_device(const std::string& sys) {
  for (const char* kind : {"infiniband", "cxi", "cxi_user", "hfi1_user"}) {
    if (!entries(fs::path(sys) / "class" / kind).empty()) return true;
  }
  return false;
}

bool has_gpu(const std::string& sys) {
  const fs::path devices = fs::path(sys) / "bus" / "pci" / "devices";
  for (const std::string& name : entries(devices)) {
    // "0x030000": base class, class, interface; displays, and accelerators as AMD calls them.
    const std::string kind = read_line(devices / name / "class").substr(0, 4);
    if (kind != "0x03" && kind != "0x12") continue;
    const std::string vendor = read_line(devices / name / "vendor");
    if (vendor == "0x10de" || vendor == "0x1002" || vendor == "0x8086") return true;
  }
  return false;
}

std::vector<Interface> list_interfaces(const std::string& sys) {
  std::vector<Interface> all;
  const fs::path classes = fs::path(sys) / "class";
  for (const auto& [kind, provider] : {std::pair("infiniband", "verbs"), std::pair("cxi", "cxi")}) {
    for (const std::string& name : entries(classes / kind)) {
      if (auto found = rdma_device(classes / kind / name, provider)) all.push_back(std::move(*found));
    }
  }
  const std::size_t rdma = all.size();
  for (const std::string& name : entries(classes / "net")) {
    auto found = network_interface(classes / "net" / name);
    if (!found) continue;
    const auto same =
        std::find_if(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rdma),
                     [&](const auto& i) { return !i.nic.pci.empty() && i.nic.pci == found->nic.pci; });
    if (same == all.begin() + static_cast<std::ptrdiff_t>(rdma)) {
      all.push_back(std::move(*found));
    } else if (!same->nic.bandwidth) {
      same->nic.bandwidth = found->nic.bandwidth;  // cxi devices have no rate of their own
    }
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return natural(a.nic.name) < natural(b.nic.name); });
  return all;
}

std::vector<Nic> choose_rails(const std::vector<Interface>& interfaces, const std::string& wanted,
                              std::vector<std::string>& notes) {
  std::vector<Nic> rails;
  if (!wanted.empty()) {
    std::istringstream names(wanted);
    for (std::string name; std::getline(names, name, ',');) {
      const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                      [&](const auto& i) { return i.nic.name == name; });
      if (found != interfaces.end())
        rails.push_back(found->nic);
      else
        notes.push_back("TAPA_NICS=" + wanted + ": there is no interface \"" + name + "\" that is up");
    }
    return rails;
  }
  Interface::Kind best = Interface::Kind::virtual_link;
  double fastest = 0;
  for (const Interface& i : interfaces) best = std::max(best, i.kind);
  for (const Interface& i : interfaces) {
    if (i.kind == best) fastest = std::max(fastest, i.nic.bandwidth.value_or(0));
  }
  for (const Interface& i : interfaces) {
    if (i.kind == best && i.nic.bandwidth.value_or(fastest) >= fastest / 4) rails.push_back(i.nic);
  }
  return rails;
}

std::optional<double> parse_rate(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return std::nullopt;
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double factor = 1;
  for (const char* known : {"bit", "kbit", "mbit", "gbit", "tbit"}) {
    if (unit == known) return number * factor / 8;
    factor *= 1000;
  }
  return std::nullopt;
}

void apply_rates(const std::string& text, std::vector<Nic>& nics, std::vector<std::string>& notes) {
  const std::string variable = "TAPA_NIC_RATE=" + text + ": ";
  const auto bad_rate = [&](const std::string& rate) {
    notes.push_back(variable + "rate \"" + rate + "\", expected a number with bit, kbit, mbit, gbit or tbit");
  };
  if (text.find('=') == std::string::npos) {
    const auto rate = parse_rate(text);
    if (!rate) return bad_rate(text);
    for (Nic& nic : nics) nic.bandwidth = rate;
    return;
  }
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : entry.substr(equals + 1);
    const auto rate = parse_rate(value);
    if (!rate) {
      bad_rate(value);
      continue;
    }
    const auto nic = std::find_if(nics.begin(), nics.end(), [&](const Nic& n) { return n.name == name; });
    if (nic != nics.end())
      nic->bandwidth = rate;
    else
      notes.push_back(variable + "there is no rail \"" + name + "\"");
  }
}

}  // namespace tapa
