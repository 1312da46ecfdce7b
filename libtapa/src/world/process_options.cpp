#include "world/process_options.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "autotune/tuning_file.hpp"
#include "files/environment.hpp"
#include "files/paths.hpp"
#include "run/log.hpp"
#include "run/world.hpp"
#include "topology/input_file.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"
#include "world/world.hpp"

namespace tapa {

namespace {

std::string read_tuning_file(const std::string& path) {
  if (path.empty()) return {};
  return read_input_file(files::from_first_folder(path), max_tuning_bytes,
                         "option \"tuning\" is \"" + path + "\"", "a tuning file");
}

/// Takes the options of a tuning file's text, which is empty after it if it has nothing else.
void take_options(std::string& text, Options& options) {
  if (text.empty()) return;
  const std::string& path = options.settings().tuning;
  const Tuning tuning = parse_tuning(text, path);
  options.take_file(tuning.options, path);
  if (tuning.ranks == 0) text.clear();
}

/// The topology that option "topology" asks for: of the whole job, of which communicators get their part, or
/// of these ranks where processes of other jobs are among them.
Topology topology_asked_for(const std::string& asked, MPI_Comm comm) {
  const std::string text = names_topology_file(asked) ? files::from_first_folder(asked).string() : asked;
  const std::vector<int> in_world = ranks_in_world(comm);
  if (std::ranges::find(in_world, MPI_UNDEFINED) != in_world.end())
    return override_topology(text, static_cast<int>(in_world.size()));
  return override_topology(text, size_of(MPI_COMM_WORLD)).subset(in_world);
}

}  // namespace

Options with_tuning_file(Options options) {
  std::string text = read_tuning_file(options.settings().tuning);
  take_options(text, options);
  return options;
}

Options environment_options() {
  std::vector<std::string> warnings;
  try {
    Options options = Options::from_environment(files::variables(), warnings);
    static std::once_flag once;
    std::call_once(once, [&] {
      set_log_level(options.settings().log);
      if (rank_in(MPI_COMM_WORLD) != 0) return;  // once in the job is enough
      for (const std::string& warning : warnings) log_warn(warning);
    });
    return options;
  } catch (const std::invalid_argument& e) {
    refuse(MPI_ERR_ARG, e.what());
  }
}

const Options& own_options() {
  static const auto* const options = [] {
    try {
      return new Options(environment_options());
    } catch (const CallError&) {
      return new Options;
    }
  }();
  return *options;
}

// Three texts, or the one reason why there are none.
std::string pack_options(MPI_Comm comm) {
  std::vector<std::string> parts;
  try {
    const Options options = environment_options();
    const std::string& topology = options.settings().topology;
    parts = {options.serialize(), read_tuning_file(options.settings().tuning),
             topology.empty() ? std::string() : write_topology(topology_asked_for(topology, comm))};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    parts = {e.what()};
  }
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(parts);
  return {bytes.begin(), bytes.end()};
}

SharedOptions unpack_options(const std::string& packed) {
  auto parts = nlohmann::json::from_cbor(packed).get<std::vector<std::string>>();
  if (parts.size() == 1) throw SetupError(MPI_ERR_ARG, parts[0]);
  Options options = Options::deserialize(parts.at(0));
  try {
    take_options(parts.at(1), options);
  } catch (const std::invalid_argument& e) {
    throw SetupError(MPI_ERR_ARG, e.what());
  }
  return {std::make_shared<const Options>(std::move(options)), std::move(parts.at(1)),
          std::move(parts.at(2))};
}

}  // namespace tapa
