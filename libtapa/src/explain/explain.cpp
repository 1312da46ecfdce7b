#include "explain/explain.hpp"

#include <algorithm>

#include "explain/explain_format.hpp"

namespace tapa {

std::vector<PhaseTraffic> phase_traffic(const Plan& plan, const Topology& topology) {
  std::vector<PhaseTraffic> phases(plan.phases.size());
  for (PhaseTraffic& phase : phases) phase.levels.resize(topology.levels.size());
  std::vector<Traffic> own(phases.size());
  for (const RankPlan& rank : plan.of_rank) {
    own.assign(phases.size(), {});
    for (const Step& step : rank.steps) {
      PhaseTraffic& phase = phases[step.phase];
      if (step.kind == StepKind::copy) phase.copied.add(step.bytes);
      if (step.kind != StepKind::send) continue;
      phase.sent.add(step.bytes);
      phase.levels[static_cast<std::size_t>(topology.level_of(rank.rank, step.peer))].add(step.bytes);
      own[step.phase].add(step.bytes);
    }
    for (std::size_t p = 0; p < phases.size(); ++p) {
      phases[p].busiest.messages = std::max(phases[p].busiest.messages, own[p].messages);
      phases[p].busiest.bytes = std::max(phases[p].busiest.bytes, own[p].bytes);
    }
  }
  return phases;
}

std::size_t most_scratch(const Plan& plan) {
  std::size_t most = 0;
  for (const RankPlan& rank : plan.of_rank) most = std::max(most, rank.scratch_bytes);
  return most;
}

namespace {

std::string levels_text(const PhaseTraffic& phase, const Topology& topology) {
  std::string text;
  for (std::size_t l = 0; l < phase.levels.size(); ++l) {
    if (phase.levels[l].messages == 0) continue;
    text += (text.empty() ? "" : ", ") + topology.levels[l].name + " " + bytes_words(phase.levels[l].bytes);
  }
  return text;
}

std::string segment_text(const Segment& s) {
  const std::string range = "[" + std::to_string(s.offset) + ".." + std::to_string(s.offset + s.bytes) + ")";
  if (s.buffer == Buffer::scratch) return "scratch" + range;
  return (s.buffer == Buffer::send ? "send to " : "recv from ") + std::to_string(s.block) + " " + range;
}

std::string segments_text(std::span<const Segment> segments) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(segments.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + segment_text(segments[i]);
  }
  if (segments.size() > kShown) text += " and " + std::to_string(segments.size() - kShown) + " more";
  return text;
}

std::string deps_text(std::span<const std::uint32_t> deps) {
  std::string text;
  for (const std::uint32_t dep : deps) text += (text.empty() ? "  after " : ", ") + std::to_string(dep);
  return text;
}

}  // namespace

std::string explain_text(const Plan& plan, const Topology& topology, const Cost& cost) {
  std::string text = "plan       " + plan.choice + "\nmachine    " + topology.name + ", " +
                     std::to_string(topology.ranks) + " ranks\npredicted  " + seconds_words(cost.seconds) +
                     ", of it copies on the busiest rank " + seconds_words(cost.copy_seconds) +
                     "\nscratch    " + bytes_words(most_scratch(plan)) + " on the rank that needs most\n\n";
  Table phases({"phase", "messages", "bytes", "most a rank sends", "copied inside ranks", "over"});
  const std::vector<PhaseTraffic> traffic = phase_traffic(plan, topology);
  for (std::size_t p = 0; p < traffic.size(); ++p) {
    const PhaseTraffic& t = traffic[p];
    phases.add({plan.phases[p].name, std::to_string(t.sent.messages), bytes_words(t.sent.bytes),
                std::to_string(t.busiest.messages) + " / " + bytes_words(t.busiest.bytes),
                bytes_words(t.copied.bytes), levels_text(t, topology)});
  }
  text += phases.text() + "\n";
  Table levels({"level", "messages", "bytes", "longest message"});
  for (std::size_t l = 0; l < topology.levels.size(); ++l) {
    levels.add({topology.levels[l].name, std::to_string(cost.level_messages[l]),
                bytes_words(cost.level_bytes[l]), seconds_words(cost.level_seconds[l])});
  }
  text += levels.text();
  if (topology.nics.empty()) return text;
  Table nics({"NIC", "node", "sends"});
  for (std::size_t n = 0; n < topology.nics.size(); ++n) {
    nics.add({topology.nics[n].name, std::to_string(topology.nics[n].node), bytes_words(cost.nic_bytes[n])});
  }
  return text + "\n" + nics.text();
}

std::string explain_rank(const Plan& plan, int rank) {
  const RankPlan& r = plan.of_rank[static_cast<std::size_t>(rank)];
  std::string text = "rank " + std::to_string(rank) + ": " + std::to_string(r.steps.size()) +
                     " steps, scratch " + bytes_words(r.scratch_bytes) + "\n";
  Table steps({"step", "phase", "what", "bytes", "memory"});
  for (std::size_t i = 0; i < r.steps.size(); ++i) {
    const Step& s = r.steps[i];
    const bool copies = s.kind == StepKind::copy;
    const bool sends = s.kind == StepKind::send;
    const std::string what = copies ? "copy"
                                    : (sends ? "send to " : "recv from ") + std::to_string(s.peer) +
                                          " channel " + std::to_string(s.channel);
    const std::string memory = copies ? segments_text(r.from(s)) + " -> " + segments_text(r.to(s))
                                      : segments_text(sends ? r.from(s) : r.to(s));
    steps.add({std::to_string(i), plan.phases[s.phase].name, what, std::to_string(s.bytes),
               memory + deps_text(r.deps_of(s))});
  }
  return text + steps.text();
}

}  // namespace tapa
