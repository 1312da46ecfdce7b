#include "world/shared_options.hpp"

#include <algorithm>
#include <charconv>
#include <exception>
#include <functional>
#include <string_view>
#include <vector>

#include "autotune/tuning_file.hpp"
#include "files/paths.hpp"
#include "run/world.hpp"
#include "topology/input_file.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"
#include "world/process_options.hpp"
#include "world/world.hpp"

namespace tapa {

namespace {

// First byte of what rank 0 shares: whether options or the reason why there are none follow.
constexpr char kGood = '+';
constexpr char kBad = '-';

std::string read_tuning_file(const std::string& path) {
  if (path.empty()) return {};
  return read_input_file(files::from_first_folder(path), max_tuning_bytes,
                         "option \"tuning\" is \"" + path + "\"", "a tuning file");
}

/// The topology that option "topology" asks for. The option describes the whole job, so that a program's
/// sub-communicators get their part of it; where processes of other jobs are among them it describes these
/// ranks.
Topology topology_asked_for(const std::string& asked, MPI_Comm comm) {
  const std::string text = names_topology_file(asked) ? files::from_first_folder(asked).string() : asked;
  int world_size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
  const std::vector<int> in_world = ranks_in_world(comm);
  if (std::ranges::find(in_world, MPI_UNDEFINED) != in_world.end())
    return override_topology(text, static_cast<int>(in_world.size()));
  return override_topology(text, world_size).subset(in_world);
}

/// One part of several in a string: its length, a colon, its bytes.
std::string framed(const std::string& part) {
  return std::to_string(part.size()) + ":" + part;
}

std::string take_framed(std::string_view& from) {
  const std::size_t colon = from.find(':');
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(from.data(), from.data() + std::min(colon, from.size()), length);
  if (colon == std::string_view::npos || error != std::errc() || length > from.size() - colon - 1) {
    throw SetupError(MPI_ERR_INTERN, "what rank 0 shares is cut short");
  }
  std::string part(from.substr(colon + 1, length));
  from.remove_prefix(colon + 1 + length);
  return part;
}

}  // namespace

OptionsDigest options_digest() {
  try {
    const Options options = environment_options();
    const Settings& s = options.settings();
    return {std::hash<std::string>{}(options.serialize()), s.topology.empty() && s.tuning.empty()};
  } catch (const CallError&) {
    return {};
  }
}

std::string pack_options(MPI_Comm comm) {
  try {
    const Options options = environment_options();
    const std::string& topology = options.settings().topology;
    return kGood + framed(options.serialize()) + framed(read_tuning_file(options.settings().tuning)) +
           framed(topology.empty() ? std::string() : write_topology(topology_asked_for(topology, comm)));
  } catch (const std::exception& e) {
    return kBad + std::string(e.what());
  }
}

SharedOptions unpack_options(const std::string& packed) {
  if (packed.empty() || packed[0] != kGood) {
    throw SetupError(MPI_ERR_ARG, packed.empty() ? std::string("rank 0 sent no options") : packed.substr(1));
  }
  std::string_view rest = std::string_view(packed).substr(1);
  SharedOptions shared;
  shared.options = Options::deserialize(take_framed(rest));
  shared.tuning = take_framed(rest);
  shared.topology = take_framed(rest);
  return shared;
}

}  // namespace tapa
