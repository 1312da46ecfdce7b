#include "autotune/learnt.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "autotune/autotuning.hpp"

namespace tapa {

namespace {

// The day of the last use is written anew after so many days.
constexpr int kUsedDays = 3;

const LearntPlan* plan_of(const LearntSize& size, const Choice& choice) {
  const auto found = std::ranges::find(size.plans, choice, &LearntPlan::choice);
  return found == size.plans.end() ? nullptr : &*found;
}

const LearntPlan* mpi_of(const LearntSize& size) {
  const auto found = std::ranges::find(size.plans, Algorithm::mpi,
                                       [](const LearntPlan& plan) { return plan.choice.algorithm; });
  return found == size.plans.end() ? nullptr : &*found;
}

/// The first plan, where it has beaten MPI; else null.
const LearntPlan* winner_of(const LearntSize& size) {
  const LearntPlan* const mpi = mpi_of(size);
  if (mpi == nullptr || &size.plans.front() == mpi) return nullptr;
  const LearntPlan& first = size.plans.front();
  const bool sure = size.decided || static_cast<std::size_t>(first.samples) >= Autotuning::kSureCalls;
  const double gain = sure ? Autotuning::kGain : Autotuning::kEarlyGain;
  if (!size.decided && static_cast<std::size_t>(first.samples) < Autotuning::kFewCalls) return nullptr;
  return first.seconds < (1 - gain) * mpi->seconds ? &first : nullptr;
}

bool same_calls(const LearntSize& a, const LearntSize& b) {
  return a.uniform == b.uniform && a.bytes == b.bytes;
}

int sum_of_calls(int a, int b) {
  return b > std::numeric_limits<int>::max() - a ? std::numeric_limits<int>::max() : a + b;
}

/// Of two results of one run.
bool tells_more(const LearntSize& a, const LearntSize& b) {
  const auto samples = [](const LearntSize& size) {
    int sum = 0;
    for (const LearntPlan& plan : size.plans) sum = sum_of_calls(sum, plan.samples);
    return sum;
  };
  if ((a.day == 0) != (b.day == 0)) return a.day == 0;
  return a.decided != b.decided ? a.decided : samples(a) > samples(b);
}

/// An older result under a new one: the new one stands, and what it has left out as slow stays slow. Then
/// both are as old as that: it would never be tried again if each run made it new.
LearntSize joined(const LearntSize& old, LearntSize fresh) {
  for (const LearntPlan& plan : old.plans) {
    if (fresh.plans.size() >= kMostLearntPlans) break;
    if (!plan.given_up || plan_of(fresh, plan.choice) != nullptr) continue;
    fresh.plans.push_back(plan);
    fresh.day = old.day;
  }
  return fresh;
}

/// What gives way first: what holds no more, then the older, then what few calls are of.
auto worth(int today) {
  return [today](const LearntSize& size) {
    return std::tuple(days_between(size.day, today) <= kLearntDays, size.day, size.calls);
  };
}

void add_size(std::vector<LearntSize>& sizes, const LearntSize& fresh, int today) {
  LearntSize stamped = fresh;
  if (stamped.day == 0) stamped.day = today;
  if (stamped.plans.size() > kMostLearntPlans) stamped.plans.resize(kMostLearntPlans);
  const auto old = std::ranges::find_if(sizes, [&](const LearntSize& s) { return same_calls(s, fresh); });
  if (old == sizes.end()) {
    if (sizes.size() >= kMostLearntSizes) sizes.erase(std::ranges::min_element(sizes, {}, worth(today)));
    sizes.push_back(std::move(stamped));
  } else if (fresh.day != 0) {  // nothing new
    old->calls = fresh.calls;
  } else {
    *old =
        days_between(old->day, today) > kLearntDays ? std::move(stamped) : joined(*old, std::move(stamped));
  }
}

/// Bytes of the texts that say where something was measured.
std::size_t bytes_of_texts(const LearntWhere& where) {
  return where.libtapa.size() + where.mpi.size() + where.cpu.size() + where.settings.size();
}

/// About what a shape needs in the file, and rather more.
std::size_t bytes_of(const LearntShape& shape) {
  std::size_t bytes = 400 + 2 * (bytes_of_texts(shape.where) + shape.topology.size());  // quotes count twice
  for (const LearntSize& size : shape.sizes) {
    bytes += 120;
    for (const LearntPlan& plan : size.plans) bytes += 120 + to_string(plan.choice).size();
  }
  return bytes;
}

/// No shape takes more than half of the file.
void keep_what_fits(LearntShape& shape, int today) {
  while (!shape.sizes.empty() && bytes_of(shape) > kMostLearntBytes / 2)
    shape.sizes.erase(std::ranges::min_element(shape.sizes, {}, worth(today)));
}

void keep_what_fits(Learnt& learnt, int today) {
  for (LearntShape& shape : learnt.shapes) keep_what_fits(shape, today);
  std::erase_if(learnt.shapes, [](const LearntShape& shape) { return shape.sizes.empty(); });
  std::ranges::stable_sort(learnt.shapes, {},
                           [&](const LearntShape& shape) { return days_between(shape.day, today); });
  std::size_t bytes = 100;
  std::size_t kept = 0;
  while (kept < std::min(learnt.shapes.size(), kMostLearntShapes)) {
    bytes += bytes_of(learnt.shapes[kept]);
    if (bytes > kMostLearntBytes) break;
    ++kept;
  }
  learnt.shapes.erase(learnt.shapes.begin() + static_cast<std::ptrdiff_t>(kept), learnt.shapes.end());
}

}  // namespace

int days_between(int from, int to) {
  return to >= from ? to - from : std::numeric_limits<int>::max();
}

LearntStart start_from(const LearntSize& size) {
  LearntStart start;
  if (size.plans.empty()) return start;
  const LearntPlan* const mpi = mpi_of(size);
  if (const LearntPlan* const winner = winner_of(size)) {
    start.kind = LearntStart::Kind::trial;
    start.plan = winner->choice;
  } else if (size.decided && mpi != nullptr) {  // it has won, or no plan has
    start.kind = LearntStart::Kind::mpi;
  }
  for (const LearntPlan& plan : size.plans) {
    if (plan.given_up && plan.choice.algorithm != Algorithm::mpi) start.without.push_back(plan.choice);
  }
  return start;
}

std::vector<LearntShape> fitting(const Learnt& learnt, const LearntWhere& where, int ranks, int today) {
  std::vector<LearntShape> shapes;
  for (const LearntShape& shape : learnt.shapes) {
    if (shape.where != where || (ranks != 0 && shape.ranks != ranks)) continue;
    shapes.push_back(shape);
    std::erase_if(shapes.back().sizes,
                  [&](const LearntSize& size) { return days_between(size.day, today) > kLearntDays; });
    if (shapes.back().sizes.empty()) shapes.pop_back();
  }
  return shapes;
}

void add_to_run(Learnt& run, LearntShape shape) {
  const auto same =
      std::ranges::find_if(run.shapes, [&](const LearntShape& s) { return s.same_place(shape); });
  if (same == run.shapes.end()) {
    if (run.shapes.size() >= kMostLearntShapes) run.shapes.erase(run.shapes.begin());
    run.shapes.push_back(std::move(shape));
    return;
  }
  for (LearntSize& size : shape.sizes) {
    const auto known =
        std::ranges::find_if(same->sizes, [&](const LearntSize& s) { return same_calls(s, size); });
    if (known == same->sizes.end()) {
      same->sizes.push_back(std::move(size));
      continue;
    }
    const int calls = sum_of_calls(known->calls, size.calls);
    if (tells_more(size, *known)) *known = std::move(size);
    known->calls = calls;
  }
}

Learnt merged(Learnt before, const Learnt& run, int today) {
  for (const LearntShape& fresh : run.shapes) {
    auto old = std::ranges::find_if(before.shapes, [&](const LearntShape& s) { return s.same_place(fresh); });
    if (old == before.shapes.end()) {
      before.shapes.push_back(fresh);
      old = before.shapes.end() - 1;
      old->sizes.clear();
    }
    std::rotate(before.shapes.begin(), old, old + 1);  // of one day the newest is the first
    old = before.shapes.begin();
    old->day = today;
    for (const LearntSize& size : fresh.sizes) add_size(old->sizes, size, today);
  }
  keep_what_fits(before, today);
  return before;
}

std::size_t without_room(const Learnt& run, const Learnt& after) {
  std::size_t lost = 0;
  for (const LearntShape& shape : run.shapes) {
    const auto kept =
        std::ranges::find_if(after.shapes, [&](const LearntShape& s) { return s.same_place(shape); });
    for (const LearntSize& size : shape.sizes) {
      const auto same = [&](const LearntSize& s) { return same_calls(s, size); };
      if (kept == after.shapes.end() || std::ranges::none_of(kept->sizes, same)) ++lost;
    }
  }
  return lost;
}

bool differs(const Learnt& before, const Learnt& after) {
  if (before.shapes.size() != after.shapes.size()) return true;
  for (const LearntShape& shape : after.shapes) {
    const auto old =
        std::ranges::find_if(before.shapes, [&](const LearntShape& s) { return s.same_place(shape); });
    if (old == before.shapes.end() || shape.day - old->day >= kUsedDays) return true;
    const auto same = [](const LearntSize& a, const LearntSize& b) {
      return same_calls(a, b) && a.decided == b.decided && a.day == b.day && a.plans == b.plans;
    };
    if (!std::ranges::equal(shape.sizes, old->sizes, same)) return true;
  }
  return false;
}

}  // namespace tapa
