#include "autotune/autotuning.hpp"

#include <algorithm>
#include <utility>

#include "plan/median.hpp"

namespace tapa {

Autotuning::Autotuning(std::vector<Choice> choices, std::uint64_t smallest, std::uint64_t largest)
    : choices_(std::move(choices)), smallest_(smallest), largest_(largest), times_(choices_.size()) {
  for (std::size_t i = 0; i < choices_.size(); ++i) left_.push_back(i);
  if (left_.size() == 1) {
    finish();
  } else {
    begin_round();
  }
}

Autotuning::Autotuning(std::vector<Choice> choices, ProbeBudget& budget, std::uint64_t smallest,
                       std::uint64_t largest)
    : Autotuning(std::move(choices), smallest, largest) {
  const auto mpi = std::ranges::find(choices_, Algorithm::mpi, &Choice::algorithm);
  if (complete_ || !budget.limited() || mpi == choices_.end()) return;
  budget_ = &budget;
  preferred_ = incumbent_ = static_cast<std::size_t>(mpi - choices_.begin());
  measure_mpi();
}

Autotuning Autotuning::trial(Choice plan, ProbeBudget& budget, std::uint64_t smallest, std::uint64_t largest,
                             std::vector<double> mpi, bool stays_at_a_tie) {
  Choice other;
  other.algorithm = Algorithm::mpi;
  Autotuning autotuning({std::move(plan), std::move(other)}, smallest, largest);
  autotuning.times_[1] = std::move(mpi);
  if (budget.limited()) autotuning.budget_ = &budget;
  autotuning.preferred_ = autotuning.incumbent_ = 1;
  autotuning.trying_ = true;
  autotuning.stays_at_a_tie_ = stays_at_a_tie;
  autotuning.begin_trial();
  return autotuning;
}

Autotuning Autotuning::finished(const std::vector<PlanResult>& best_first) {
  std::vector<Choice> choices;
  for (const PlanResult& plan : best_first) choices.push_back(plan.choice);
  Autotuning autotuning(std::move(choices));
  autotuning.left_.clear();
  autotuning.ranking_.clear();
  for (std::size_t i = 0; i < best_first.size(); ++i) {
    if (best_first[i].seconds > 0) autotuning.times_[i] = {best_first[i].seconds};
    autotuning.known_calls_.push_back(best_first[i].samples);
    autotuning.ranking_.push_back(i);
  }
  autotuning.complete_ = true;
  return autotuning;
}

std::vector<PlanResult> Autotuning::known() const {
  std::vector<std::size_t> order = ranking_;  // before the end: those given up
  if (!complete_) {
    std::vector<std::size_t> left = left_;
    std::ranges::stable_sort(left, {},
                             [&](std::size_t i) { return std::pair(calls_of(i) < kFewCalls, median(i)); });
    order.insert(order.begin(), left.begin(), left.end());
  }
  std::vector<PlanResult> plans;
  for (const std::size_t i : order) {
    if (calls_of(i) == 0) continue;
    const bool given_up = complete_ ? i != ranking_.front() : std::ranges::find(left_, i) == left_.end();
    const auto calls = static_cast<int>(std::min<std::size_t>(calls_of(i), INT32_MAX));
    plans.push_back({choices_[i], median(i), calls, given_up});
  }
  return plans;
}

/// Calls of MPI's that the program would make anyway, to know what others are worth.
void Autotuning::measure_mpi() {
  measuring_ = true;
  begin_calls(std::vector<std::size_t>(kMpiCalls, preferred_));
}

// In a row, so that few calls come behind another plan's, and a program that makes few has the fast ones.
void Autotuning::begin_trial() {
  std::vector<std::size_t> order(kMpiCalls, 0);
  if (times_[preferred_].empty()) order.insert(order.end(), kMpiCalls, preferred_);
  begin_calls(std::move(order));
}

void Autotuning::begin_calls(std::vector<std::size_t> order) {
  order_ = std::move(order);
  seconds_.assign(order_.size(), 0);
  bytes_.assign(order_.size(), 0);
  calls_ = 0;
}

// Each pass over the candidates begins with another one, in no regular order: calls of a program often
// alternate too.
void Autotuning::begin_round() {
  std::vector<std::size_t> order;
  std::uint64_t state = round_ * kFruitless + fruitless_ + 1;
  for (std::size_t pass = 0; pass < kRounds[round_].calls; ++pass) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's linear congruential generator
    const std::size_t first = round_ == 0 ? 0 : (state >> 33) % left_.size();
    for (std::size_t i = 0; i < left_.size(); ++i) {
      const std::size_t choice = left_[(first + i) % left_.size()];
      if (!is_undecided(choice)) order.push_back(choice);
    }
  }
  // In a row: a call behind another plan's meets ranks that are still busy with that.
  for (const std::size_t choice : undecided_)
    order.insert(order.end(), std::min(kUndecided, kRounds[round_].calls), choice);
  begin_calls(std::move(order));
  if (budgeted()) rest_before_round();
}

/// The round that has ended, by the agreed times.
void Autotuning::pay_round() {
  const double mpi = median(preferred_);
  for (std::size_t call = 0; call < order_.size(); ++call) {
    const bool known = mpi > 0 && order_[call] != preferred_;
    budget_->pay(seconds_[call], known ? seconds_[call] - mpi : 0);
  }
  budget_->pay(0, std::min(mpi, kAgreeing));
}

void Autotuning::pick_incumbent() {
  incumbent_ = preferred_;
  double best = median(preferred_);
  for (const std::size_t i : left_) {
    const double gain = calls_of(i) >= kSureCalls ? kGain : kEarlyGain;
    if (calls_of(i) < kFewCalls || median(i) >= std::min(best, (1 - gain) * median(preferred_))) continue;
    best = median(i);
    incumbent_ = i;
  }
}

void Autotuning::rest_before_round() {
  const double mpi = median(preferred_);
  if (mpi <= 0) return;
  double cost = std::min(mpi, kAgreeing);
  for (const std::size_t choice : order_) {
    const double expected = calls_of(choice) > 0 ? median(choice) : kUnknown * mpi + kMaking;
    cost += std::max(expected - mpi, 0.0);
  }
  rest_ = rested_ = budget_->calls_before(cost, median(incumbent_), mpi);
}

void Autotuning::count_rest() {
  if (--rest_ > 0) return;
  const double calls = static_cast<double>(rested_);
  budget_->pay(calls * median(incumbent_), calls * (median(incumbent_) - median(preferred_)));
}

void Autotuning::record(double seconds, std::uint64_t bytes) {
  seconds_[calls_] = seconds;
  bytes_[calls_] = bytes;
  ++calls_;
}

/// False: of some plan that is decided no call counts.
bool Autotuning::take_times() {
  const auto counts = [&](std::size_t call) { return bytes_[call] >= smallest_ && bytes_[call] <= largest_; };
  std::vector<bool> timed(choices_.size());
  for (std::size_t call = 0; call < order_.size(); ++call)
    timed[order_[call]] = timed[order_[call]] || counts(call);
  const auto needs_none = [&](std::size_t i) {
    return is_undecided(i) || (measuring_ && i != preferred_) || (trying_ && !times_[i].empty());
  };
  if (!std::ranges::all_of(left_, [&](std::size_t i) { return timed[i] || needs_none(i); })) return false;
  for (std::size_t call = 0; call < order_.size(); ++call) {
    if (counts(call)) times_[order_[call]].push_back(seconds_[call]);
  }
  return true;
}

void Autotuning::end_round() {
  if (!take_times()) {
    if (++fruitless_ == kFruitless) return finish();
    if (trying_) return begin_trial();
    return measuring_ ? measure_mpi() : begin_round();
  }
  if (budgeted()) {
    pay_round();
    pick_incumbent();
    if (std::exchange(measuring_, false)) return begin_round();
  }
  if (trying_) {  // by the medians
    if (stays_at_a_tie_) preferred_ = 0;
    return finish();
  }
  give_up_slow();
  if (++round_ == kRounds.size() || left_.size() == 1 || know_enough()) return finish();
  begin_round();
}

/// Also by the medians: one lucky call of another plan is no reason to give MPI up.
bool Autotuning::clearly_slow(std::size_t choice, double slack) const {
  return std::ranges::any_of(left_, [&](std::size_t i) {
    return calls_of(i) >= kFewCalls && median(choice) > (1 + slack) * median(i);
  });
}

bool Autotuning::know_enough() const {
  return std::ranges::all_of(left_, [&](std::size_t i) {
    return calls_of(i) >= kFewCalls && static_cast<double>(calls_of(i)) * least(i) >= kEnough;
  });
}

void Autotuning::give_up_slow() {
  double best = least(left_.front());
  for (const std::size_t i : left_) best = std::min(best, least(i));
  const Round& round = kRounds[round_];
  const double slack = std::min(round.slack, kTie + round.disturbance / std::max(best, 1e-9));
  if (slack <= 0) return;  // the last round: medians decide
  std::vector<std::size_t> slow;
  undecided_.clear();
  for (const std::size_t i : left_) {
    if (budgeted() && i == preferred_ && !clearly_slow(i, slack)) continue;
    if (least(i) > (1 + slack) * best) (least(i) > best + round.margin ? slow : undecided_).push_back(i);
  }
  std::ranges::stable_sort(slow, {}, [&](std::size_t i) { return least(i); });
  ranking_.insert(ranking_.begin(), slow.begin(), slow.end());
  std::erase_if(left_, [&](std::size_t i) { return std::ranges::find(slow, i) != slow.end(); });
}

void Autotuning::sort_left() {
  std::ranges::stable_sort(left_, {}, [&](std::size_t i) { return median(i); });
  const auto first = std::ranges::find(left_, preferred_);
  if (first != left_.end() && median(left_.front()) >= (1 - kGain) * median(preferred_))
    std::rotate(left_.begin(), first, first + 1);
}

void Autotuning::finish() {
  const auto preferred = std::ranges::find(left_, preferred_);
  if (preferred != left_.end()) std::rotate(left_.begin(), preferred, preferred + 1);
  if (!times_[left_.front()].empty()) sort_left();
  ranking_.insert(ranking_.begin(), left_.begin(), left_.end());
  complete_ = true;
}

bool Autotuning::is_undecided(std::size_t choice) const {
  return std::ranges::find(undecided_, choice) != undecided_.end();
}

double Autotuning::least(std::size_t choice) const {
  return times_[choice].empty() ? 0 : *std::ranges::min_element(times_[choice]);
}

double Autotuning::median(std::size_t choice) const {
  const std::vector<double>& times = times_[choice];
  if (times.empty()) return 0;
  return tapa::median({times.begin() + (times.size() > 1 ? 1 : 0), times.end()});
}

}  // namespace tapa
