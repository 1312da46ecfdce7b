#include "driver.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "floor.hpp"
#include "gpu.hpp"
#include "mpi_algorithms.hpp"
#include "race.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"
#include "write_file.hpp"

namespace tapa::bench {

namespace {

// Forced plans of ours, each on a duplicate of its own.
class ForcedPlans {
 public:
  ForcedPlans(MPI_Comm comm, const std::vector<std::string>& plans) {
    for (const std::string& plan : plans) {
      MPI_Comm duplicate = MPI_COMM_NULL;
      MPI_Comm_dup(comm, &duplicate);
      MPI_Comm_set_errhandler(duplicate, errors_return());
      comms_.push_back(duplicate);
      const int code = TAPA_Comm_set(duplicate, "plan", plan.c_str());
      check(code, code == MPI_SUCCESS ? "" : "--plan " + plan + ": " + TAPA_Last_error());
    }
  }
  ~ForcedPlans() {
    for (MPI_Comm& comm : comms_) {
      MPI_Comm_free(&comm);
    }
  }
  ForcedPlans(const ForcedPlans&) = delete;
  ForcedPlans& operator=(const ForcedPlans&) = delete;
  [[nodiscard]] MPI_Comm operator[](std::size_t i) const { return comms_[i]; }

 private:
  std::vector<MPI_Comm> comms_;
};

class Latency {
 public:
  Latency(const Program& program, const Session& session)
      : program_(program),
        session_(session),
        options_(session.options()),
        columns_{options_.full, options_.validate, options_.nic_rate.has_value(), false, false},
        exchange_(program.make(comm_, options_)) {
    columns_.rival = options_.versus_nccl ? "NCCL" : "MPI";
    if (options_.versus()) plans_.emplace(comm_, options_.plans);
    if (options_.versus_mpi) mpi_.emplace(comm_, program.mpi_variable);
    if (options_.versus_nccl) start_nccl();
    if (options_.versus() && !options_.on_gpu) {
      floor_.emplace(comm_);
      columns_.floor = floor_->possible();
    }
  }

  int run() {
    session_.print(preamble(program_, options_) +
                   (options_.versus() ? versus_header(columns_) : latency_header(columns_)));
    for (const std::size_t bytes : sizes(options_, session_.machine().ranks)) {
      exchange_->resize(bytes);
      if (columns_.floor) floor_->resize(*exchange_);
      std::vector<Contender> contenders = options_.versus() ? all_contenders() : the_contender();
      const bool valid = !options_.validate || validate(contenders);
      all_valid_ = all_valid_ && valid;
      if (columns_.floor) contenders.push_back({"floor", false, false, [this] { floor_->copy(); }, true});
      const std::vector<Times> times = race(comm_, contenders, options_, bytes);
      options_.versus() ? print_versus(bytes, contenders, times, valid)
                        : print_latency(bytes, times[0], valid);
      exchange_->release();
    }
    return write_json(program_, options_, session_.machine(), session_.rank(), rows_) && all_valid_ ? 0 : 1;
  }

 private:
  std::vector<Contender> the_contender() {
    const bool mpi = options_.use_mpi;
    return {{mpi ? "MPI" : "TAPA", !mpi, false, [this, mpi] {
               check(mpi ? exchange_->call_mpi(comm_) : exchange_->call_tapa(comm_), program_.name);
             }}};
  }

  // The library's choice, forced plans, then MPI's algorithms. Only the library's choice and MPI's default
  // are always timed to the end.
  std::vector<Contender> all_contenders() {
    std::vector<Contender> all{
        {"TAPA", true, false, [this] { check(exchange_->call_tapa(comm_), program_.name); }}};
    for (std::size_t i = 0; i < options_.plans.size(); ++i) {
      const MPI_Comm comm = (*plans_)[i];
      all.push_back({options_.plans[i], true, true,
                     [this, comm] { check(exchange_->call_tapa(comm), program_.name); }});
    }
    if (mpi_) add_mpi(all);
    for (const NamedNccl& rival : nccl_) {
      NcclRival* const nccl = rival.nccl.get();
      all.push_back({rival.name, false, false, [this, nccl] { exchange_->call_nccl(*nccl); }, false,
                     [this, nccl] { exchange_->load(*nccl); }});
    }
    return all;
  }

  void add_mpi(std::vector<Contender>& all) {
    mpi_->keep_working([this](const MpiAlgorithm& algorithm) -> int {
      // Open MPI's Bruck, which its default may be, takes sizes for extents and writes behind buffers.
      const bool may_be_bruck =
          algorithm.name == "modified_bruck" || (algorithm.name == "default" && mpi_->all().size() > 1);
      if (options_.elements == Elements::gaps && may_be_bruck) return MPI_ERR_TYPE;
      return exchange_->call_mpi(algorithm.comm);
    });
    for (const MpiAlgorithm& algorithm : mpi_->all()) {
      const MPI_Comm comm = algorithm.comm;
      all.push_back({algorithm.name, false, algorithm.name != "default",
                     [this, comm] { check(exchange_->call_mpi(comm), program_.name); }});
    }
  }

  /// NCCL as it is, and, for equal blocks, by copy engines between symmetric buffers.
  void start_nccl() {
    const std::vector<std::size_t> all = sizes(options_, session_.machine().ranks);
    if (all.empty()) return;
    const std::size_t most = all.back() * static_cast<std::size_t>(session_.machine().ranks);
    const bool equal = options_.shape == Shape::even && options_.imbalance <= 0;
    for (const bool zero_cta : {false, true}) {
      if (zero_cta && !equal) continue;
      auto nccl = NcclRival::make(comm_, options_.nccl, zero_cta, most);
      if (nccl) nccl_.push_back({zero_cta ? "zero-cta" : "default", std::move(nccl)});
    }
    if (!nccl_.empty()) return;
    if (session_.rank() == 0)
      std::fprintf(stderr, "--versus nccl: NCCL 2.28 or later cannot be had (--nccl %s)\n",
                   options_.nccl.c_str());
    MPI_Abort(comm_, 1);
  }

  bool validate(const std::vector<Contender>& contenders) {
    bool valid = true;
    for (const Contender& contender : contenders) {
      unsigned long long wrong = 0;
      for (int call = 0; call < options_.validation_calls; ++call) {
        const auto seed = static_cast<std::uint32_t>(call + 1);
        exchange_->fill(seed);
        if (contender.load) contender.load();
        contender.call();
        wrong += exchange_->wrong_bytes(seed);
      }
      MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, comm_);
      if (wrong != 0 && session_.rank() == 0) {
        std::fprintf(stderr, "%s: %s: %llu bytes are wrong after %d calls\n", program_.name.c_str(),
                     contender.name.c_str(), wrong, options_.validation_calls);
      }
      valid = valid && wrong == 0;
    }
    return valid;
  }

  [[nodiscard]] std::optional<double> nic_bound() const {
    if (!options_.nic_rate) {
      return std::nullopt;
    }
    return nic_bound_seconds(session_.machine().node_of, *options_.nic_rate,
                             [this](int src, int dst) { return exchange_->block_bytes(src, dst); });
  }

  void print_latency(std::size_t bytes, const Times& times, bool valid) {
    const double mean = summarize(times.own).mean * 1e6;
    double sum = 0;
    LatencyRow row{bytes, 0, 0, 0, times.own.size(), valid, nic_bound().value_or(0) * 1e6};
    MPI_Reduce(&mean, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, comm_);
    MPI_Reduce(&mean, &row.min, 1, MPI_DOUBLE, MPI_MIN, 0, comm_);
    MPI_Reduce(&mean, &row.max, 1, MPI_DOUBLE, MPI_MAX, 0, comm_);
    row.average = sum / session_.machine().ranks;
    session_.print(latency_line(row, columns_));
  }

  void print_versus(std::size_t bytes, const std::vector<Contender>& contenders,
                    const std::vector<Times>& times, bool valid) {
    const std::string plan = options_.on_gpu ? "-" : plan_of(comm_, exchange_->mean_bytes());
    VersusRow row{bytes, {}, plan, nic_bound(), {}, valid};
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      if (columns_.floor && c + 1 == contenders.size()) {
        row.floor = summarize(times[c].slowest).median;
        continue;
      }
      row.candidates.push_back({contenders[c].name, contenders[c].ours, summarize(times[c].slowest), {}});
    }
    session_.print(versus_line(row, columns_));
    rows_.push_back(std::move(row));
  }

  const MPI_Comm comm_ = MPI_COMM_WORLD;
  const Program& program_;
  const Session& session_;
  const Options& options_;
  Columns columns_;
  std::unique_ptr<Exchange> exchange_;
  std::optional<Floor> floor_;
  std::optional<MpiAlgorithms> mpi_;
  std::optional<ForcedPlans> plans_;
  struct NamedNccl {
    std::string name;
    std::unique_ptr<NcclRival> nccl;
  };
  std::vector<NamedNccl> nccl_;
  std::vector<VersusRow> rows_;
  bool all_valid_ = true;
};

}  // namespace

std::string preamble(const Program& program, const Options& options) {
  const char* library = options.versus_nccl  ? "TAPA vs NCCL"
                        : options.versus_mpi ? "TAPA vs MPI"
                                             : (options.use_mpi ? "MPI" : "TAPA");
  std::string text =
      "\n# OSU-style " + std::string(library) + " " + program.title + "\n# Datatype: MPI_CHAR.\n";
  if (options.on_gpu) text += "# Buffers are in GPU memory.\n";
  if (options.burst > 1) {
    text += "# Times are of one of " + std::to_string(options.burst) + " calls in a row.\n";
  }
  if (options.settle > 0) {
    text += "# Before each size come up to " + std::to_string(options.settle) + " untimed calls of ours.\n";
  }
  if (options.late > 0) {
    text += "# The last rank comes " + std::to_string(options.late) + " us late to each call.\n";
  }
  if (options.nic_rate) {
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(),
                  "# NIC bound: busiest node's bytes to or from other nodes, %g on the wire for %d, over "
                  "%d x %g MB/s\n",
                  wire_bytes(segment_bytes(options.nic_rate->packet), options.nic_rate->packet),
                  segment_bytes(options.nic_rate->packet), options.nic_rate->nics,
                  options.nic_rate->bytes_per_second / 1e6);
    text += line.data();
  }
  return text;
}

bool write_json(const Program& program, const Options& options, const Machine& machine, int rank,
                const std::vector<VersusRow>& rows) {
  if (options.json.empty() || rank != 0) {
    return true;
  }
  try {
    write_file("--json", options.json, versus_json(program.name, machine, rows));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s: %s\n", program.name.c_str(), error.what());
    return false;
  }
  return true;
}

int run_latency(const Program& program, int argc, char** argv) {
  const Session session(program, argc, argv);
  return session.ended() ? session.exit_code() : Latency(program, session).run();
}

}  // namespace tapa::bench
