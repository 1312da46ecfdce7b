#include "autotune/autotuning.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tapa {

Autotuning::Autotuning(std::vector<Choice> choices, std::uint64_t smallest, std::uint64_t largest)
    : times_(std::move(choices)),
      smallest_(smallest),
      largest_(largest),
      left_(this->choices().size()),
      undecided_(left_.size()) {
  std::iota(left_.begin(), left_.end(), 0);
  if (left_.size() == 1) {
    finish();
  } else {
    begin_round();
  }
}

Autotuning::Autotuning(std::vector<Choice> choices, ProbeBudget& budget, std::uint64_t smallest,
                       std::uint64_t largest)
    : Autotuning(std::move(choices), smallest, largest) {
  const auto mpi = std::ranges::find(this->choices(), Algorithm::mpi, &Choice::algorithm);
  if (complete_ || !budget.limited() || mpi == this->choices().end()) return;
  budget_ = &budget;
  preferred_ = incumbent_ = static_cast<std::size_t>(mpi - this->choices().begin());
  stage_ = Stage::measuring;
  begin_round();
}

Autotuning Autotuning::trial(Choice plan, ProbeBudget& budget, std::uint64_t smallest, std::uint64_t largest,
                             std::vector<double> mpi, bool stays_at_a_tie) {
  Autotuning autotuning({std::move(plan), {Algorithm::mpi}}, smallest, largest);
  autotuning.times_.set(1, std::move(mpi));
  if (budget.limited()) autotuning.budget_ = &budget;
  autotuning.preferred_ = autotuning.incumbent_ = 1;
  autotuning.stays_at_a_tie_ = stays_at_a_tie;
  autotuning.stage_ = Stage::trying;
  autotuning.begin_round();
  return autotuning;
}

Autotuning Autotuning::finished(const std::vector<PlanResult>& best_first) {
  std::vector<Choice> choices;
  for (const PlanResult& plan : best_first) choices.push_back(plan.choice);
  Autotuning autotuning(std::move(choices));
  autotuning.ranking_ = std::exchange(autotuning.left_, {});
  for (std::size_t i = 0; i < best_first.size(); ++i) {
    const double seconds = best_first[i].seconds;
    autotuning.times_.set(i, std::vector<double>(seconds > 0 ? 1 : 0, seconds), best_first[i].samples);
  }
  autotuning.complete_ = true;
  return autotuning;
}

std::vector<PlanResult> Autotuning::known() const {
  std::vector<std::size_t> order = ranking_;  // before the end: those given up
  if (!complete_) {
    std::vector<std::size_t> left = left_;
    std::ranges::stable_sort(
        left, {}, [&](std::size_t i) { return std::pair(times_.calls_of(i) < kFewCalls, times_.median(i)); });
    order.insert(order.begin(), left.begin(), left.end());
  }
  std::vector<PlanResult> plans;
  for (const std::size_t i : order) {
    if (times_.calls_of(i) == 0) continue;
    const bool given_up = complete_ ? i != ranking_.front() : std::ranges::find(left_, i) == left_.end();
    const auto calls = static_cast<int>(std::min<std::size_t>(times_.calls_of(i), INT32_MAX));
    plans.push_back({choices()[i], times_.median(i), calls, given_up});
  }
  return plans;
}

void Autotuning::begin_round() {
  if (stage_ == Stage::competing) {
    order_ = round_of_all();
  } else if (stage_ ==
             Stage::measuring) {  // calls that the program would make anyway, to know what others are worth
    order_.assign(kMpiCalls, preferred_);
  } else {  // in a row, so that few calls come behind another plan's, and a program that makes few has the
            // fast ones
    order_.assign(kMpiCalls, 0);
    if (times_.of(preferred_).empty()) order_.insert(order_.end(), kMpiCalls, preferred_);
  }
  seconds_.assign(order_.size(), 0);
  bytes_.assign(order_.size(), 0);
  calls_ = 0;
  if (stage_ == Stage::competing && budget_ != nullptr) rest_before_round();
}

// Each pass over the candidates begins with another one, in no regular order: calls of a program often
// alternate too.
std::vector<std::size_t> Autotuning::round_of_all() const {
  std::vector<std::size_t> order;
  std::uint64_t state = round_ * kFruitless + fruitless_ + 1;
  for (std::size_t pass = 0; pass < kRounds[round_].calls; ++pass) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's linear congruential generator
    const std::size_t first = round_ == 0 ? 0 : (state >> 33) % left_.size();
    for (std::size_t i = 0; i < left_.size(); ++i) {
      const std::size_t choice = left_[(first + i) % left_.size()];
      if (!undecided_[choice]) order.push_back(choice);
    }
  }
  // In a row: a call behind another plan's meets ranks that are still busy with that.
  for (const std::size_t choice : left_)
    if (undecided_[choice]) order.insert(order.end(), std::min(kUndecided, kRounds[round_].calls), choice);
  return order;
}

/// Of the round that has ended, by the agreed times: what it has cost, and what is known to be the fastest.
void Autotuning::take_stock() {
  const double mpi = times_.median(preferred_);
  for (std::size_t call = 0; call < order_.size(); ++call) {
    const bool known = mpi > 0 && order_[call] != preferred_;
    budget_->pay(seconds_[call], known ? seconds_[call] - mpi : 0);
  }
  budget_->pay(0, std::min(mpi, kAgreeing));
  incumbent_ = preferred_;
  double best = mpi;
  for (const std::size_t i : left_) {
    const double gain = times_.calls_of(i) >= kSureCalls ? kGain : kEarlyGain;
    if (times_.calls_of(i) < kFewCalls || times_.median(i) >= std::min(best, (1 - gain) * mpi)) continue;
    best = times_.median(i);
    incumbent_ = i;
  }
}

void Autotuning::rest_before_round() {
  const double mpi = times_.median(preferred_);
  if (mpi <= 0) return;
  double cost = std::min(mpi, kAgreeing);
  for (const std::size_t choice : order_) {
    const double expected = times_.calls_of(choice) > 0 ? times_.median(choice) : kUnknown * mpi + kMaking;
    cost += std::max(expected - mpi, 0.0);
  }
  rest_ = rested_ = budget_->calls_before(cost, times_.median(incumbent_), mpi);
}

void Autotuning::count_rest() {
  if (--rest_ > 0) return;
  const double calls = static_cast<double>(rested_);
  const double each = times_.median(incumbent_);
  budget_->pay(calls * each, calls * (each - times_.median(preferred_)));
}

void Autotuning::record(double seconds, std::uint64_t bytes) {
  seconds_[calls_] = seconds;
  bytes_[calls_] = bytes;
  ++calls_;
}

/// False: of some plan that is decided no call counts.
bool Autotuning::take_times() {
  const auto counts = [&](std::size_t call) { return bytes_[call] >= smallest_ && bytes_[call] <= largest_; };
  std::vector<bool> timed(choices().size());
  for (std::size_t call = 0; call < order_.size(); ++call)
    timed[order_[call]] = timed[order_[call]] || counts(call);
  const auto needs_none = [&](std::size_t i) {
    return undecided_[i] || (stage_ == Stage::measuring && i != preferred_) ||
           (stage_ == Stage::trying && !times_.of(i).empty());
  };
  if (!std::ranges::all_of(left_, [&](std::size_t i) { return timed[i] || needs_none(i); })) return false;
  for (std::size_t call = 0; call < order_.size(); ++call) {
    if (counts(call)) times_.add(order_[call], seconds_[call]);
  }
  return true;
}

void Autotuning::end_round() {
  if (!take_times()) return ++fruitless_ == kFruitless ? finish() : begin_round();
  if (budget_ != nullptr) take_stock();
  if (stage_ == Stage::measuring) {
    stage_ = Stage::competing;
    return begin_round();
  }
  if (stage_ == Stage::trying) {  // by the medians
    if (stays_at_a_tie_) preferred_ = 0;
    return finish();
  }
  give_up_slow();
  if (++round_ == kRounds.size() || left_.size() == 1 || know_enough()) return finish();
  begin_round();
}

bool Autotuning::know_enough() const {
  return std::ranges::all_of(left_, [&](std::size_t i) {
    const std::size_t calls = times_.calls_of(i);
    return calls >= kFewCalls && static_cast<double>(calls) * times_.least(i) >= kEnough;
  });
}

void Autotuning::give_up_slow() {
  double best = times_.least(left_.front());
  for (const std::size_t i : left_) best = std::min(best, times_.least(i));
  const Round& round = kRounds[round_];
  const double slack = std::min(round.slack, kTie + round.disturbance / std::max(best, 1e-9));
  if (slack <= 0) return;  // the last round: medians decide
  // MPI also by the medians: one lucky call of another plan is no reason to give it up.
  const auto stays = [&] {
    return budget_ != nullptr && std::ranges::none_of(left_, [&](std::size_t i) {
             return times_.calls_of(i) >= kFewCalls &&
                    times_.median(preferred_) > (1 + slack) * times_.median(i);
           });
  };
  std::vector<std::size_t> slow;
  for (const std::size_t i : left_) {
    const double least = times_.least(i);
    const bool over = least > (1 + slack) * best && !(i == preferred_ && stays());
    undecided_[i] = over && least <= best + round.margin;
    if (over && !undecided_[i]) slow.push_back(i);
  }
  std::ranges::stable_sort(slow, {}, [&](std::size_t i) { return times_.least(i); });
  ranking_.insert(ranking_.begin(), slow.begin(), slow.end());
  std::erase_if(left_, [&](std::size_t i) { return std::ranges::find(slow, i) != slow.end(); });
}

void Autotuning::finish() {
  const auto prefer = [&] {
    const auto preferred = std::ranges::find(left_, preferred_);
    if (preferred != left_.end()) std::rotate(left_.begin(), preferred, preferred + 1);
  };
  prefer();
  if (!times_.of(left_.front()).empty()) {
    std::ranges::stable_sort(left_, {}, [&](std::size_t i) { return times_.median(i); });
    if (times_.median(left_.front()) >= (1 - kGain) * times_.median(preferred_)) prefer();
  }
  ranking_.insert(ranking_.begin(), left_.begin(), left_.end());
  complete_ = true;
}

}  // namespace tapa
