#include "autotune/results.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <tuple>
#include <utility>

#include "autotune/autotuning.hpp"

namespace tapa {

namespace {

// The day of the last use is written anew after so many days.
constexpr int kUsedDays = 3;

/// The first one of a list that is so, or null.
template <class List, class Is>
auto* first_of(List& list, const Is& is) {
  const auto found = std::ranges::find_if(list, is);
  return found == list.end() ? nullptr : &*found;
}

const PlanResult* plan_of(const SizeResult& size, const Choice& choice) {
  return first_of(size.plans, [&](const PlanResult& plan) { return plan.choice == choice; });
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

int sum_of_calls(int a, int b) {
  return b > std::numeric_limits<int>::max() - a ? std::numeric_limits<int>::max() : a + b;
}

/// Of two results of one run.
bool tells_more(const SizeResult& a, const SizeResult& b) {
  const auto samples = [](const SizeResult& size) {
    int sum = 0;
    for (const PlanResult& plan : size.plans) sum = sum_of_calls(sum, plan.samples);
    return sum;
  };
  if ((a.day == 0) != (b.day == 0)) return a.day == 0;
  return a.decided != b.decided ? a.decided : samples(a) > samples(b);
}

/// An older result under a new one: the new one stands, and what it has left out as slow stays slow. Then
/// both are as old as that: it would never be tried again if each run made it new.
SizeResult joined(const SizeResult& old, SizeResult fresh) {
  for (const PlanResult& plan : old.plans) {
    if (fresh.plans.size() >= kMostPlanResults) break;
    if (!plan.given_up || plan_of(fresh, plan.choice) != nullptr) continue;
    fresh.plans.push_back(plan);
    fresh.day = old.day;
  }
  return fresh;
}

/// What gives way first: what holds no more, then the older, then what few calls are of.
auto worth(int today) {
  return [today](const SizeResult& size) {
    return std::tuple(days_between(size.day, today) <= kResultsDays, size.day, size.calls);
  };
}

void add_size(std::vector<SizeResult>& sizes, const SizeResult& fresh, int today) {
  SizeResult stamped = fresh;
  if (stamped.day == 0) stamped.day = today;
  if (stamped.plans.size() > kMostPlanResults) stamped.plans.resize(kMostPlanResults);
  SizeResult* const old = same_calls(sizes, fresh);
  if (old == nullptr) {
    if (sizes.size() >= kMostSizeResults) sizes.erase(std::ranges::min_element(sizes, {}, worth(today)));
    sizes.push_back(std::move(stamped));
  } else if (fresh.day != 0) {  // nothing new
    old->calls = fresh.calls;
  } else {
    *old =
        days_between(old->day, today) > kResultsDays ? std::move(stamped) : joined(*old, std::move(stamped));
  }
}

/// About what a shape needs in the file, and rather more.
std::size_t bytes_of(const ShapeResults& shape) {
  const ResultsWhere& where = shape.where;
  std::size_t bytes = 400;
  for (const std::string* text : {&where.libtapa, &where.mpi, &where.cpu, &where.settings, &shape.topology})
    bytes += 2 * text->size();  // quotes count twice
  for (const SizeResult& size : shape.sizes) {
    bytes += 120;
    for (const PlanResult& plan : size.plans) bytes += 120 + to_string(plan.choice).size();
  }
  return bytes;
}

/// No shape takes more than half of the file.
void keep_what_fits(ShapeResults& shape, int today) {
  while (!shape.sizes.empty() && bytes_of(shape) > kMostResultsBytes / 2)
    shape.sizes.erase(std::ranges::min_element(shape.sizes, {}, worth(today)));
}

void keep_what_fits(Results& results, int today) {
  for (ShapeResults& shape : results.shapes) keep_what_fits(shape, today);
  std::erase_if(results.shapes, [](const ShapeResults& shape) { return shape.sizes.empty(); });
  std::ranges::stable_sort(results.shapes, {},
                           [&](const ShapeResults& shape) { return days_between(shape.day, today); });
  std::size_t bytes = 100;
  std::size_t kept = 0;
  while (kept < std::min(results.shapes.size(), kMostShapeResults)) {
    bytes += bytes_of(results.shapes[kept]);
    if (bytes > kMostResultsBytes) break;
    ++kept;
  }
  results.shapes.erase(results.shapes.begin() + static_cast<std::ptrdiff_t>(kept), results.shapes.end());
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace

int days_between(int from, int to) {
  return to >= from ? to - from : std::numeric_limits<int>::max();
}

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
    std::erase_if(shapes.back().sizes,
                  [&](const SizeResult& size) { return days_between(size.day, today) > kResultsDays; });
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
    if (known == nullptr) {
      same->sizes.push_back(std::move(size));
      continue;
    }
    const int calls = sum_of_calls(known->calls, size.calls);
    if (tells_more(size, *known)) *known = std::move(size);
    known->calls = calls;
  }
}

Results merged(Results before, const Results& run, int today) {
  for (const ShapeResults& fresh : run.shapes) {
    auto old =
        std::ranges::find_if(before.shapes, [&](const ShapeResults& s) { return s.same_place(fresh); });
    if (old == before.shapes.end()) {
      before.shapes.push_back(fresh);
      old = before.shapes.end() - 1;
      old->sizes.clear();
    }
    std::rotate(before.shapes.begin(), old, old + 1);  // of one day the newest is the first
    old = before.shapes.begin();
    old->day = today;
    for (const SizeResult& size : fresh.sizes) add_size(old->sizes, size, today);
  }
  keep_what_fits(before, today);
  return before;
}

std::size_t without_room(const Results& run, const Results& after) {
  std::size_t lost = 0;
  for (const ShapeResults& shape : run.shapes) {
    const ShapeResults* const kept = same_place(after.shapes, shape);
    for (const SizeResult& size : shape.sizes) {
      if (kept == nullptr || same_calls(kept->sizes, size) == nullptr) ++lost;
    }
  }
  return lost;
}

bool differs(const Results& before, const Results& after) {
  if (before.shapes.size() != after.shapes.size()) return true;
  const auto news = [&](const ShapeResults& shape) {
    const ShapeResults* const old = same_place(before.shapes, shape);
    if (old == nullptr || shape.day - old->day >= kUsedDays) return true;
    const auto same = [](SizeResult a, const SizeResult& b) {
      a.calls = b.calls;
      return a == b;
    };
    return !std::ranges::equal(shape.sizes, old->sizes, same);
  };
  return std::ranges::any_of(after.shapes, news);
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
