#include "autotune/learnt_key.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace tapa {

namespace {

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace

// FNV-1a, 64 bits (Fowler, Noll, Vo).
std::string digest_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

std::string topology_digest(const Topology& topology, bool shares_buffers) {
  std::string text = shares_buffers ? "shared" : "apart";
  text += " " + std::to_string(topology.ranks) + " nic " + std::to_string(topology.nic_level);
  for (const Level& level : topology.levels) {
    text += " " + level.name;
    for (const int group : level.group) text += "," + std::to_string(group);
  }
  for (const Nic& nic : topology.nics)
    text +=
        " " + std::to_string(nic.node) + ":" + nic.provider + ":" + number_text(nic.bandwidth.value_or(0));
  text += " cores " + number_text(topology.cores_per_rank.value_or(0));
  return digest_of(text);
}

std::vector<std::string> mpi_settings(const char* const* environment) {
  static constexpr std::array<std::string_view, 13> decide{
      "OMPI_MCA_btl", "OMPI_MCA_coll", "OMPI_MCA_mpi_yield", "OMPI_MCA_mtl", "OMPI_MCA_pml", "OMPI_MCA_osc",
      "MPIR_CVAR_",   "I_MPI_ADJUST",  "I_MPI_FABRICS",      "I_MPI_OFI",    "I_MPI_SHM",    "UCX_",
      "FI_"};
  // The drop-in itself gives each rank its own NIC; which there are the topology tells.
  constexpr std::string_view each_ranks_own = "OMPI_MCA_btl_tcp_if_include=";
  std::vector<std::string> found;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (entry.starts_with(each_ranks_own)) continue;
    if (std::ranges::any_of(decide, [&](std::string_view name) { return entry.starts_with(name); }))
      found.emplace_back(entry);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace tapa
