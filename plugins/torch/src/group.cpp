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

LevelBytes Group::newly_sent() {
  const dit_exchange_totals totals = context().totals();
  LevelBytes sent{};
  for (std::size_t level = 0; level < kMostLevels; ++level) {
    sent[level] = totals.sent_bytes[level] - counted_[level];
    counted_[level] = totals.sent_bytes[level];
  }
  return sent;
}

Names<Group>& groups() {
  static auto* const names = new Names<Group>("group");
  return *names;
}

}  // namespace dit::operators
