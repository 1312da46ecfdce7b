#include "autotune/results.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "autotune/autotuning.hpp"

namespace tapa {

namespace {

/// The first one of a list that is so, or null.
template <class List, class Is>
auto* first_of(List& list, const Is& is) {
  const auto found = std::ranges::find_if(list, is);
  return found == list.end() ? nullptr : &*found;
}

const PlanResult* mpi_of(const SizeResult& size) {
  return first_of(size.plans, [](const PlanResult& plan) { return plan.choice.algorithm == Algorithm::mpi; });
}

template <class Shapes>
auto* same_place(Shapes& shapes, const ShapeResults& shape) {
  return first_of(shapes, [&](const ShapeResults& s) { return s.same_place(shape); });
}

template <class Sizes>
auto* same_calls(Sizes& sizes, const SizeResult& size) {
  return first_of(sizes,
                  [&](const SizeResult& s) { return s.uniform == size.uniform && s.bytes == size.bytes; });
}

/// Of two results of one run.
bool tells_more(const SizeResult& a, const SizeResult& b) {
  const auto samples = [](const SizeResult& size) {
    std::int64_t sum = 0;
    for (const PlanResult& plan : size.plans) sum += plan.samples;
    return sum;
  };
  if ((a.day == 0) != (b.day == 0)) return a.day == 0;
  return a.decided != b.decided ? a.decided : samples(a) > samples(b);
}

bool is_too_old(const SizeResult& size, int today) {
  return today - size.day > kResultsDays;
}

/// What a run has not measured itself replaces nothing: another job may have, meanwhile.
void put_size(std::vector<SizeResult>& sizes, SizeResult fresh, int today) {
  SizeResult* const old = same_calls(sizes, fresh);
  if (old != nullptr && fresh.day != 0) return;
  if (fresh.day == 0) fresh.day = today;
  if (old != nullptr)
    *old = std::move(fresh);
  else if (sizes.size() < kMostSizeResults)
    sizes.push_back(std::move(fresh));
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace

ResultsStart start_from(const SizeResult& size) {
  const PlanResult* const mpi = mpi_of(size);
  if (mpi == nullptr) return ResultsStart::compete;
  const PlanResult& first = size.plans.front();
  const auto samples = static_cast<std::size_t>(first.samples);
  const bool sure = size.decided || samples >= Autotuning::kSureCalls;
  const double gain = sure ? Autotuning::kGain : Autotuning::kEarlyGain;
  const bool known = size.decided || samples >= Autotuning::kFewCalls;
  if (&first != mpi && known && first.seconds < (1 - gain) * mpi->seconds) return ResultsStart::trial;
  return size.decided ? ResultsStart::mpi : ResultsStart::compete;
}

std::vector<ShapeResults> fitting(const Results& results, const ResultsWhere& where, int ranks, int today) {
  std::vector<ShapeResults> shapes;
  for (const ShapeResults& shape : results.shapes) {
    if (shape.where != where || (ranks != 0 && shape.ranks != ranks)) continue;
    shapes.push_back(shape);
    // A clock may have gone back meanwhile.
    std::erase_if(shapes.back().sizes,
                  [&](const SizeResult& size) { return size.day > today || is_too_old(size, today); });
    if (shapes.back().sizes.empty()) shapes.pop_back();
  }
  return shapes;
}

void add_to_run(Results& run, ShapeResults shape) {
  ShapeResults* const same = same_place(run.shapes, shape);
  if (same == nullptr) {
    if (run.shapes.size() >= kMostShapeResults) run.shapes.erase(run.shapes.begin());
    run.shapes.push_back(std::move(shape));
    return;
  }
  for (SizeResult& size : shape.sizes) {
    SizeResult* const known = same_calls(same->sizes, size);
    if (known == nullptr)
      same->sizes.push_back(std::move(size));
    else if (tells_more(size, *known))
      *known = std::move(size);
  }
}

Results merged(Results before, const Results& run, int today) {
  std::vector<ShapeResults>& shapes = before.shapes;
  for (const ShapeResults& fresh : run.shapes) {
    const auto old = std::ranges::find_if(shapes, [&](const ShapeResults& s) { return s.same_place(fresh); });
    ShapeResults shape = fresh;
    shape.sizes = old != shapes.end() ? old->sizes : std::vector<SizeResult>();
    std::erase_if(shape.sizes, [&](const SizeResult& size) { return is_too_old(size, today); });
    for (const SizeResult& size : fresh.sizes) put_size(shape.sizes, size, today);
    if (old != shapes.end()) {
      if (shape == *old) continue;
      shapes.erase(old);
    }
    if (!shape.sizes.empty()) shapes.insert(shapes.begin(), std::move(shape));
  }
  if (shapes.size() > kMostShapeResults) shapes.resize(kMostShapeResults);
  return before;
}

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
