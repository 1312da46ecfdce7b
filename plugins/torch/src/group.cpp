#include "group.hpp"

#include <stdexcept>
#include <utility>

#include "c_interface/handles.hpp"

namespace dit::operators {

Group::Group(std::string name, dit_session& session) : name_(std::move(name)), session_(session) {
  (void)newly_sent();
}

Group::Group(std::string name, SessionHandle session)
    : name_(std::move(name)), own_(std::move(session)), session_(*own_) {}

ExchangeContext& Group::context() const {
  return session_.context;
}

void Group::agree(const std::string& words) const {
  if (const std::string all = context().agree_on_error(words); !all.empty()) throw std::invalid_argument(all);
}

void Group::close() {
  dit_session* session = own_.release();
  require_ok(dit_session_close(&session));
}

LevelBytes Group::newly_sent() {
  const LevelBytes now = totals();
  LevelBytes sent{};
  for (std::size_t level = 0; level < kMostLevels; ++level)
    sent[level] = now[level] - std::exchange(counted_[level], now[level]);
  return sent;
}

void Group::run_uncounted(const std::function<void()>& body) {
  const LevelBytes before = totals();
  const auto leave_out = [&] {
    const LevelBytes now = totals();
    for (std::size_t level = 0; level < kMostLevels; ++level) counted_[level] += now[level] - before[level];
  };
  try {
    body();
  } catch (...) {
    leave_out();
    throw;
  }
  leave_out();
}

LevelBytes Group::totals() const {
  const dit_exchange_totals totals = context().totals();
  LevelBytes sent{};
  for (std::size_t level = 0; level < kMostLevels; ++level) sent[level] = totals.sent_bytes[level];
  return sent;
}

Names<Group>& groups() {
  static auto* const names = new Names<Group>("group");
  return *names;
}

}  // namespace dit::operators
