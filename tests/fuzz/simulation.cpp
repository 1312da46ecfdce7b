// Files of tapa-sim: what it writes for the simulator, a machine and how it is simulated, times of an earlier
// run (--known). Every text is read as each of them: refused in words, or read, jobs as they are written.
#include "fuzz.hpp"
#include "job.hpp"
#include "known.hpp"

namespace {

template <typename Read>
void refused_in_words(const Read& read) {
  try {
    read();
  } catch (const std::invalid_argument& error) {
    fuzz::require_words(error);
  }
}

void read_job(const std::string& text) {
  const tapa::sim::Job job = tapa::sim::read_job(text, "file");
  const std::string written = tapa::sim::write_job(job);
  fuzz::require(tapa::sim::write_job(tapa::sim::read_job(written, "written")) == written,
                "written as it was read: " + written);
}

void read_machine(const std::string& text) {
  const tapa::sim::Simulated simulated = tapa::sim::read_simulated(text, "file");
  fuzz::require(simulated.machine.slots > 0, "a machine has room for ranks");
  fuzz::require(simulated.parameters.rendezvous > 0, "a long message takes its time");
}

void read_known(const std::string& text) {
  tapa::sim_tool::Report report;
  report.machine = "fat-tree";
  report.ranks = 32;
  report.nodes = 2;
  report.placement = "block";
  report.rows.resize(2);
  report.rows[0].bytes = 8;
  report.rows[1].bytes = 4096;
  report.rows[1].choice = "linear";
  tapa::sim_tool::add_known_text(report, text, "file");
  for (const tapa::sim_tool::Row& row : report.rows)
    for (const auto& [plan, time] : row.plans) fuzz::require(time > 0, "a plan takes its time: " + plan);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  refused_in_words([&] { read_job(text); });
  refused_in_words([&] { read_machine(text); });
  refused_in_words([&] { read_known(text); });
  return 0;
}
