/// @file
/// Jobs as files: tapa-sim writes them, the platform library reads them. And the machines that are simulated.
#pragma once

#include <string>

#include "topology/topology_file.hpp"
#include "world.hpp"

namespace tapa::sim {

/// A job's text; read_job is its inverse.
[[nodiscard]] std::string write_job(const Job& job);

/// Throws std::invalid_argument: "ORIGIN: $.path: VALUE, expected WHAT".
[[nodiscard]] Job read_job(const std::string& text, const std::string& origin);

/// A machine and how it is simulated: file of schema "tapa-sim/1".
///
///     { "schema": "tapa-sim/1",
///       "machine": "aurora",                  // a shipped machine, or an object as in a topology file
///       "messages": {"eager": 8192, "rendezvous": 3, "incast": 0.06} }   // no incast: over TCP the model's
struct Simulated {
  Machine machine;
  Parameters parameters;
};

/// The text of such a file. Throws std::invalid_argument as read_job.
[[nodiscard]] Simulated read_simulated(const std::string& text, const std::string& origin);

/// Reads a file by path, or one of folders()/NAME.json. Throws std::invalid_argument that names the known
/// ones.
[[nodiscard]] Simulated load_simulated(const std::string& name_or_path);

/// Names of the machines that can be simulated, sorted.
[[nodiscard]] std::vector<std::string> simulated_machines();

}  // namespace tapa::sim
