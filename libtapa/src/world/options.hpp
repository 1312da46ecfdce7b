/// @file
/// The options of the library: one table for environment, tuning file, TAPA_Comm_set/get, tapa-info --options
/// and the warning about unknown names. Pure: no MPI.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/choice.hpp"
#include "run/log.hpp"

namespace tapa {

// In the order of the words that the options allow.
enum class Check : std::uint8_t { off, mpi, args, counts, data };
enum class GpuBuffers : std::uint8_t { automatic, mpi, stage, host, else_mpi, else_stage };
enum class GpuWire : std::uint8_t { automatic, nccl, mpi, staging, sockets, host };
enum class Wait : std::uint8_t { automatic, spin, yield, sleep };
/// passive: calls are counted as they are without a report; on: they are also compared with MPI's.
enum class Reporting : std::uint8_t { off, on, passive };

/// Values of all options, parsed. The table in options.cpp says what each means.
struct Settings {
  bool enable = true;
  std::string topology;
  std::string tuning;
  std::optional<Choice> plan;
  std::optional<double> nic_rate;  ///< bytes per second
  std::size_t piece = 0;           ///< bytes, 0 = by the network
  std::size_t shm_limit = 0;
  std::size_t attach_from = 0;
  Check check = Check::mpi;
  bool strict_plan = false;  ///< one that cannot be carried out is an error
  double timeout = 0;        ///< seconds, 0 = no watchdog
  bool explain = false;
  LogLevel log = LogLevel::warn;
  Reporting report = Reporting::off;
  bool adapt = true;
  GpuBuffers gpu = GpuBuffers::automatic;
  GpuWire gpu_wire = GpuWire::automatic;
  Wait wait = Wait::automatic;
  std::size_t keep = 0;  ///< bytes

  /// Whether MPI takes buffers in GPU memory, by these options and by what it `says`.
  [[nodiscard]] bool mpi_takes_gpu_memory(bool says) const {
    return gpu == GpuBuffers::else_mpi || (gpu != GpuBuffers::else_stage && says);
  }
};

/// A value as it was given, and what the option allows.
struct OptionValue {
  std::string_view text;
  std::string_view allowed;
};

/// One row of the table.
struct OptionInfo {
  std::string_view name;      ///< key of TAPA_Comm_set
  std::string_view variable;  ///< environment variable; "": an option of the tuning file
  std::string_view allowed;   ///< what a value may be, in words
  std::string_view standard;  ///< default value
  std::string_view help;      ///< one sentence
  void (*apply)(Settings&, const OptionValue&);
};

[[nodiscard]] std::span<const OptionInfo> option_table();

/// Where a value comes from.
enum class Origin : std::uint8_t { standard, environment, file, call };
[[nodiscard]] std::string_view to_string(Origin origin);

/// Values of all options with their origins.
class Options {
 public:
  Options();  ///< all at their defaults

  /// Takes the TAPA_* entries of an environment (NAME=value strings, ended by null); `warnings`: of unknown
  /// names. Throws std::invalid_argument that names variable, value and what was expected.
  static Options from_environment(const char* const* environment, std::vector<std::string>& warnings);

  /// Sets one option by its name. Throws std::invalid_argument as above, also for an unknown name.
  void set(std::string_view name, std::string_view value, Origin origin);

  /// Takes those of the tuning file at `path`. Throws std::invalid_argument.
  void take_file(const std::vector<std::pair<std::string, std::string>>& values, const std::string& path);

  /// Text of a value and its origin. Throw std::invalid_argument for an unknown name.
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] Origin origin(std::string_view name) const;

  [[nodiscard]] const Settings& settings() const { return settings_; }

  /// What the environment says, as bytes for another rank, and back.
  [[nodiscard]] std::string serialize() const;
  static Options deserialize(const std::string& bytes);

 private:
  void take(std::size_t row, std::string_view value, Origin origin, const std::string& whose);

  Settings settings_;
  std::vector<std::string> texts_;  // one for each row of the table
  std::vector<Origin> origins_;
};

}  // namespace tapa
