#include "plan/choose.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "plan/exact.hpp"
#include "plan/median.hpp"
#include "plan/planner.hpp"

namespace tapa {

namespace {

Choice make(Algorithm algorithm) {
  Choice c;
  c.algorithm = algorithm;
  // As parse_choice has it, so that a choice equals the one that its text gives.
  if (algorithm == Algorithm::pairwise) c.flat.algorithm = FlatAlgorithm::pairwise;
  if (algorithm == Algorithm::bruck) c.flat.algorithm = FlatAlgorithm::bruck;
  return c;
}

/// Radices of bruck for so many members: as many stages as bits, and three or two stages.
std::vector<int> radices(int members) {
  if (members <= 4) return {};
  std::vector<int> list{2, root_above(members, 3), root_above(members, 2)};
  if (members > 8) list.push_back(4);
  if (members > 64) list.push_back(8);
  if (members > 96) list.push_back(16);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

void add_split_candidates(const Topology& topology, std::size_t level, std::vector<Choice>& list) {
  const Level& l = topology.levels[level];
  const int outer = topology.levels[level + 1].groups;
  const double ranks_per_group = static_cast<double>(topology.ranks) / l.groups;
  const int groups_per_domain = l.groups / std::max(1, outer);
  if (l.groups <= outer || ranks_per_group <= 1) return;  // nothing across it, or nothing inside it
  Choice tapa = make(Algorithm::tapa);
  tapa.splits = {l.name};
  std::vector<Flat> slow{{}};
  for (int radix : radices(groups_per_domain)) slow.push_back({FlatAlgorithm::bruck, radix, 0});
  for (const Flat& between : slow) {
    tapa.slow = between;
    tapa.fast = {};
    list.push_back(tapa);
    for (int radix : radices(static_cast<int>(ranks_per_group))) {
      tapa.fast = {FlatAlgorithm::bruck, radix, 0};
      list.push_back(tapa);
    }
  }
  tapa.slow = tapa.fast = {};
  Choice ordered = tapa;
  ordered.slow.algorithm = FlatAlgorithm::pairwise;
  list.push_back(ordered);
  Choice inverse = tapa;
  inverse.order = PhaseOrder::slow_first;
  list.push_back(inverse);
  if (l.groups > 2) {
    Choice pipelined = tapa;
    pipelined.pipeline = std::min(4, l.groups - 1);
    list.push_back(pipelined);
  }
  for (int leaders : {1, 2}) {
    if (leaders >= ranks_per_group) break;
    Choice c = make(Algorithm::leaders);
    c.splits = {l.name};
    c.leaders = leaders;
    list.push_back(c);
    c.local_direct = false;
    list.push_back(c);
    if (groups_per_domain > 4) {
      c.slow = {FlatAlgorithm::bruck, 2, 0};
      list.push_back(c);
    }
  }
}

/// Log-linear between measured sizes; beyond all of them (not `inside`) in proportion to the bytes upwards,
/// flat downwards.
std::optional<double> interpolate(const std::vector<Measurement>& measurements, const Choice& choice,
                                  std::size_t bytes, bool inside) {
  const Measurement* below = nullptr;
  const Measurement* above = nullptr;
  for (const Measurement& m : measurements) {
    if (!(m.choice == choice) || m.seconds <= 0) continue;
    if (m.bytes <= bytes && (below == nullptr || m.bytes > below->bytes)) below = &m;
    if (m.bytes >= bytes && (above == nullptr || m.bytes < above->bytes)) above = &m;
  }
  if (below == nullptr && above == nullptr) return std::nullopt;
  if (inside && (below == nullptr || above == nullptr)) return std::nullopt;
  if (below == nullptr) return above->seconds;
  if (above == nullptr) {
    return below->seconds * static_cast<double>(bytes) /
           static_cast<double>(std::max<std::size_t>(below->bytes, 1));
  }
  if (above->bytes == below->bytes) return below->seconds;
  const auto log_of = [](std::size_t n) { return binary_logarithm(static_cast<double>(n) + 1); };
  const double t = (log_of(bytes) - log_of(below->bytes)) / (log_of(above->bytes) - log_of(below->bytes));
  return power_of_two((1 - t) * binary_logarithm(below->seconds) + t * binary_logarithm(above->seconds));
}

/// Median of measured over predicted: brings predictions of unmeasured candidates onto the measured scale.
double correction(const std::vector<Candidate>& list, const std::vector<double>& predicted) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].measured && predicted[i] > 0) ratios.push_back(list[i].seconds / predicted[i]);
  }
  return ratios.empty() ? 1 : median(std::move(ratios));
}

}  // namespace

bool covered(const std::vector<Measurement>& measurements, std::size_t bytes) {
  const auto smaller = [&](const Measurement& m) { return m.bytes <= bytes; };
  const auto larger = [&](const Measurement& m) { return m.bytes >= bytes; };
  return std::any_of(measurements.begin(), measurements.end(), smaller) &&
         std::any_of(measurements.begin(), measurements.end(), larger);
}

bool lock_step(const Choice& choice) {
  if (choice.algorithm == Algorithm::tapa || choice.algorithm == Algorithm::leaders)
    return choice.fast.algorithm == FlatAlgorithm::pairwise ||
           choice.slow.algorithm == FlatAlgorithm::pairwise;
  return choice.algorithm == Algorithm::pairwise;
}

std::vector<Choice> candidates(const Topology& topology, Offer offer) {
  std::vector<Choice> list;
  if (offer.memory && topology.ranks > 1 && topology.nodes() == 1) list.push_back(make(Algorithm::memory));
  list.push_back(make(Algorithm::linear));
  if (offer.mpi) list.push_back(make(Algorithm::mpi));
  if (topology.ranks < 3) return list;
  Choice windowed = make(Algorithm::linear);
  windowed.flat.window = 8;
  if (topology.ranks > 16) {
    list.push_back(windowed);
  } else if (offer.overlapped) {  // in place of lock-step: few at once spare the receivers as well
    windowed.flat.window = std::max(2, topology.ranks / 2);
    list.push_back(windowed);
  }
  list.push_back(make(Algorithm::pairwise));
  std::vector<int> flat_radices = radices(topology.ranks);
  if (flat_radices.empty()) flat_radices = {2};
  for (int radix : flat_radices) {
    Choice bruck = make(Algorithm::bruck);
    bruck.flat.radix = radix;
    list.push_back(bruck);
  }
  std::vector<std::string> splits;
  for (std::size_t l = 0; l + 1 < topology.levels.size(); ++l) {
    const std::size_t before = list.size();
    add_split_candidates(topology, l, list);
    if (list.size() > before) splits.push_back(topology.levels[l].name);
  }
  if (splits.size() > 1) {
    Choice all = make(Algorithm::tapa);
    all.splits = splits;
    list.push_back(all);
    for (int radix : radices(topology.levels[topology.levels.size() - 2].groups)) {
      all.slow = {FlatAlgorithm::bruck, radix, 0};
      list.push_back(all);
    }
  }
  if (offer.overlapped) std::erase_if(list, lock_step);
  return list;
}

std::vector<Candidate> rank_candidates(const Topology& topology, const Rates& rates,
                                       const std::vector<Measurement>& measurements, std::size_t bytes,
                                       Offer offer) {
  std::vector<Candidate> list;
  std::vector<double> predicted;
  const bool inside = covered(measurements, bytes);  // what was not timed there was passed over
  for (const Choice& choice : candidates(topology, offer)) {
    const std::optional<double> measured = interpolate(measurements, choice, bytes, inside);
    // MPI's time cannot be predicted: it is a candidate only when it was measured.
    if (choice.algorithm == Algorithm::mpi && !measured) continue;
    predicted.push_back(choice.algorithm == Algorithm::mpi ? 0 : predict(topology, rates, choice, bytes));
    list.push_back({choice, measured.value_or(predicted.back()), measured.has_value()});
  }
  const double scale = correction(list, predicted);
  for (Candidate& c : list) {
    if (!c.measured) c.seconds *= scale;
  }
  std::stable_sort(list.begin(), list.end(), [inside](const Candidate& a, const Candidate& b) {
    if (inside && a.measured != b.measured) return a.measured;
    return a.seconds < b.seconds;
  });
  return list;
}

// By the model of an all-to-all that moves as many bytes: a plan's messages are nearly as many as there,
// those of each rank to each other one are fewer.
std::vector<Candidate> rank_along_edges(const Topology& topology, const Rates& rates, const EdgeShape& shape,
                                        std::size_t bytes, Offer offer) {
  const auto ranks = static_cast<std::uint64_t>(topology.ranks);
  const std::size_t mean = (bytes * shape.blocks + ranks * ranks - 1) / (ranks * ranks);
  std::vector<Candidate> list = rank_candidates(topology, rates, {}, mean, offer);
  std::erase_if(list, [](const Candidate& c) {
    return c.choice != Choice{} && c.choice.algorithm != Algorithm::tapa &&
           c.choice.algorithm != Algorithm::leaders;
  });
  for (Candidate& c : list) c.seconds *= c.choice == Choice{} ? shape.share : 1;
  std::ranges::stable_sort(list, {}, &Candidate::seconds);
  return list;
}

std::string in_microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  return text;
}

std::string why(const std::vector<Candidate>& ranked) {
  if (ranked.empty()) return "no candidate";
  const auto say = [](const Candidate& c) {
    return to_string(c.choice) + " (" + (c.measured ? "measured " : "predicted ") +
           in_microseconds(c.seconds) + ")";
  };
  if (ranked.size() == 1) return say(ranked[0]) + " is the only candidate";
  char factor[32];
  std::snprintf(factor, sizeof factor, "%.2f",
                ranked[0].seconds > 0 ? ranked[1].seconds / ranked[0].seconds : 1.0);
  return say(ranked[0]) + " is the cheapest, " + factor + "x ahead of " + say(ranked[1]);
}

}  // namespace tapa
