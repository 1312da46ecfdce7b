#include "autotune/learnt_account.hpp"

#include <algorithm>
#include <functional>

namespace tapa {

namespace {

bool holds(const LearntAccount& account, int today) {
  return days_between(account.day, today) <= kLearntDays;
}

std::size_t bytes_of(const LearntAccount& account) {
  return 200 + 2 * bytes_of_texts(account.where);  // quotes count twice
}

}  // namespace

void give_up_old(std::vector<LearntAccount>& accounts, int today) {
  std::erase_if(accounts, [&](const LearntAccount& a) { return a.seconds <= 0 || !holds(a, today); });
  std::ranges::stable_sort(accounts, std::greater(), &LearntAccount::day);
  while (accounts.size() > kMostLearntAccounts || bytes_of_accounts(accounts) > kMostLearntAccountBytes)
    accounts.pop_back();
}

double account_of(const Learnt& learnt, const LearntWhere& where, int ranks, int today) {
  for (const LearntAccount& account : learnt.accounts) {
    if (account.where == where && account.ranks == ranks && holds(account, today))
      return std::min(account.seconds, kMostLearntAccount);
  }
  return 0;
}

void settle(Learnt& learnt, const LearntWhere& where, int ranks, double seconds, int today) {
  const double before = account_of(learnt, where, ranks, today);
  std::erase_if(learnt.accounts,
                [&](const LearntAccount& a) { return a.where == where && a.ranks == ranks; });
  const double after = std::clamp(before + seconds, 0.0, kMostLearntAccount);
  learnt.accounts.insert(learnt.accounts.begin(), {where, ranks, today, after});
  give_up_old(learnt.accounts, today);
}

std::size_t bytes_of_accounts(const std::vector<LearntAccount>& accounts) {
  std::size_t bytes = 0;
  for (const LearntAccount& account : accounts) bytes += bytes_of(account);
  return bytes;
}

}  // namespace tapa
