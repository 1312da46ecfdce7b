#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "topology/sysfs.hpp"

namespace tapa {

namespace fs = std::filesystem;

namespace {

std::string link_target(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error).string();
}

std::string cpu_model(const std::string& proc) {
  std::ifstream in(proc + "/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name") || line.starts_with("Model")) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return {};
}

int number_in(const std::string& path) {
  const std::string line = read_line(path);
  int value = -1;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

}  // namespace

void identify_host(const std::string& proc, Record& record) {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) record.host = name;
  record.kernel = read_line(proc + "/sys/kernel/random/boot_id");
  record.node = record.kernel;
  for (const char* space : {"uts", "ipc", "net"})
    record.node += " " + link_target(proc + "/self/ns/" + space);
}

void add_host_facts(const std::string& proc, const std::string& sys, Record& record) {
  HostFacts& facts = record.facts;
  facts.cpu = cpu_model(proc);
  const std::string pages =
      read_line(sys + "/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
  const std::size_t open = pages.find('[');
  const std::size_t close = pages.find(']');
  if (open != std::string::npos && close != std::string::npos && open < close) {
    facts.huge_pages = pages.substr(open + 1, close - open - 1);
  }
  facts.ptrace_scope = std::max(-1, number_in(proc + "/sys/kernel/yama/ptrace_scope"));
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) {
    facts.shm_free = static_cast<double>(shm.f_bavail) * static_cast<double>(shm.f_frsize);
  }
  const long pages_total = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  if (pages_total > 0 && page > 0)
    facts.memory = static_cast<double>(pages_total) * static_cast<double>(page);
}

std::string rack_from_slurm(const std::string& address, const std::string& pattern) {
  // Names and kinds between dots; the last switch is the leaf.
  const auto next = [](std::string_view& list) {
    const std::string_view first = list.substr(0, list.find('.'));
    list.remove_prefix(std::min(list.size(), first.size() + 1));
    return first;
  };
  std::string rack;
  for (std::string_view names = address, kinds = pattern; !names.empty() && !kinds.empty();) {
    const std::string_view name = next(names);
    if (next(kinds) == "switch") rack = name;
  }
  return rack;
}

std::string cpu_list(const std::vector<int>& ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ascending[i]);
    if (last > i) text += "-" + std::to_string(ascending[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace tapa
