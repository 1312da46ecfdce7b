#include "exchange/local/local_group.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>

#include "exchange/plugin_guard.hpp"

namespace dit {
namespace {

using std::to_string;

// Copies bytes in order from the runs of one buffer to the runs of another; both have the same number of
// bytes.
void copy_runs(const void* source, std::span<const ByteRun> from, void* target, std::span<const ByteRun> to) {
  std::size_t i = 0, i_done = 0;
  std::size_t j = 0, j_done = 0;
  while (i < from.size() && j < to.size()) {
    const std::size_t bytes = std::min(from[i].bytes - i_done, to[j].bytes - j_done);
    std::memcpy(static_cast<std::byte*>(target) + to[j].offset + j_done,
                static_cast<const std::byte*>(source) + from[i].offset + i_done, bytes);
    if ((i_done += bytes) == from[i].bytes) ++i, i_done = 0;
    if ((j_done += bytes) == to[j].bytes) ++j, j_done = 0;
  }
}

// Copies what one rank sends to another; the words for both when they do not agree on how much that is.
std::string copy_message(int sender, const LocalPart& from, int receiver, const LocalPart& to) {
  const std::vector<ByteRun>& sent = from.send_runs[static_cast<std::size_t>(receiver)];
  const std::vector<ByteRun>& expected = to.recv_runs[static_cast<std::size_t>(sender)];
  if (const std::size_t bytes = total_bytes(sent); bytes != total_bytes(expected)) {
    std::string words = from.name() + ": rank " + to_string(sender) + " sends " + to_string(bytes) +
                        " bytes to rank " + to_string(receiver) + ", which expects " +
                        to_string(total_bytes(expected));
    if (from.label != to.label) words += " in " + to.name();
    return words;
  }
  copy_runs(from.send, sent, to.recv, expected);
  return {};
}

std::string plural(std::uint64_t count, const char* noun) {
  return to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string seconds_text(double seconds) {
  std::string text = to_string(seconds);
  text.resize(text.size() - 3);
  return text + " s";
}

}  // namespace

LocalPart::LocalPart(const dit_exchange_call& call, const ContextPlace& place)
    : send(call.send),
      recv(call.recv),
      label(call.label == nullptr ? "" : call.label),
      channel(call.channel),
      peers_left(place.size()) {
  for (int peer = 0; peer < static_cast<int>(place.size()); ++peer) {
    send_runs.push_back(dit::send_runs(call, place, peer));
    recv_runs.push_back(dit::recv_runs(call, place, peer));
  }
}

std::string LocalPart::name() const {
  return "exchange " + to_string(number) + (channel == 0 ? "" : " of channel " + to_string(channel)) +
         (label.empty() ? "" : " ('" + label + "')");
}

void LocalJob::fail(const std::string& why) {
  const std::scoped_lock lock(mutex);
  if (failure.empty()) failure = why;
  changed.notify_all();
}

LocalGroup::LocalGroup(std::shared_ptr<LocalJob> job, std::vector<int> nodes, bool has_nodes)
    : job_(std::move(job)), nodes_(std::move(nodes)), has_nodes_(has_nodes), is_open_(nodes_.size()) {
  if (has_nodes_) level_names_.push_back("node");
  level_names_.push_back("world");
}

std::vector<int> LocalGroup::levels_of(int rank) const {
  std::vector<int> levels;
  for (const int node : nodes_) levels.push_back(node == nodes_[static_cast<std::size_t>(rank)] ? 0 : 1);
  return levels;
}

int LocalGroup::slow_level() const {
  const bool one_node = std::ranges::adjacent_find(nodes_, std::not_equal_to<>()) == nodes_.end();
  return one_node ? static_cast<int>(level_names_.size()) : 1;
}

std::uint64_t& LocalGroup::started(int channel, int rank) {
  std::vector<std::uint64_t>& ranks = started_[channel];
  ranks.resize(nodes_.size());
  return ranks[static_cast<std::size_t>(rank)];
}

void LocalGroup::enter(int rank) {
  const std::scoped_lock lock(job_->mutex);
  if (is_open_[static_cast<std::size_t>(rank)])
    throw PluginFailure(DIT_ERROR_ARGUMENT, "options.communicator is rank " + to_string(rank) +
                                                " of a local group, which is open already: expected that "
                                                "its context is closed before the next open");
  is_open_[static_cast<std::size_t>(rank)] = true;
}

void LocalGroup::leave(int rank) {
  const std::scoped_lock lock(job_->mutex);
  is_open_[static_cast<std::size_t>(rank)] = false;
}

void LocalGroup::require_good() {
  const std::scoped_lock lock(job_->mutex);
  if (!failure().empty()) throw PluginFailure(DIT_ERROR_COMMUNICATION, failure());
}

void LocalGroup::start(int rank, const std::shared_ptr<LocalPart>& part) {
  std::vector<std::pair<int, std::shared_ptr<LocalPart>>> present;
  present.reserve(nodes_.size());  // nothing may fail once the part is published
  {
    const std::scoped_lock lock(job_->mutex);
    if (!failure().empty()) throw PluginFailure(DIT_ERROR_COMMUNICATION, failure());
    std::uint64_t& before = started(part->channel, rank);
    part->number = before + 1;
    const Key key{part->channel, part->number};
    Round& round = rounds_[key];
    round.parts.resize(nodes_.size());
    round.parts[static_cast<std::size_t>(rank)] = part;
    for (int peer = 0; peer < size(); ++peer)
      if (const auto& other = round.parts[static_cast<std::size_t>(peer)]) present.emplace_back(peer, other);
    if (++round.arrived == nodes_.size()) rounds_.erase(key);
    ++before;
    for (const auto& [peer, other] : present) ++part->copies_under_way, ++other->copies_under_way;
  }
  for (const auto& [peer, other] : present) copy_between(rank, *part, peer, *other);
}

// Both directions between the rank that came later and one that was there. The copying is outside of the
// mutex.
void LocalGroup::copy_between(int rank, LocalPart& part, int peer, LocalPart& other) {
  std::string problem = copy_message(rank, part, peer, other);
  if (peer != rank && problem.empty()) problem = copy_message(peer, other, rank, part);
  const std::size_t sent = total_bytes(part.send_runs[static_cast<std::size_t>(peer)]);
  const std::size_t received = total_bytes(part.recv_runs[static_cast<std::size_t>(peer)]);

  const std::scoped_lock lock(job_->mutex);
  const Clock::time_point now = Clock::now();
  const int here = nodes_[static_cast<std::size_t>(rank)];
  const int there = nodes_[static_cast<std::size_t>(peer)];
  other.due = std::max(other.due, job_->nics.send(here, there, sent, now));
  part.due = std::max(part.due, job_->nics.send(there, here, received, now));
  if (!problem.empty()) part.problem = other.problem = problem;
  for (LocalPart* side : {&part, &other}) --side->copies_under_way;
  --part.peers_left;
  if (peer != rank) --other.peers_left;
  if (part.peers_left == 0 || other.peers_left == 0 || !failure().empty()) job_->changed.notify_all();
}

bool LocalGroup::done(const LocalPart& part) {
  const std::scoped_lock lock(job_->mutex);
  if (part.peers_left == 0) return !part.problem.empty() || Clock::now() >= part.due;
  return !failure().empty();
}

void LocalGroup::wait(int rank, LocalPart& part, Seconds limit) {
  const Clock::time_point begin = Clock::now();
  const bool limited = limit > Seconds::zero();
  // A limit of years would overflow the clock.
  const Clock::time_point last =
      begin + std::chrono::duration_cast<Clock::duration>(std::min(limit, Seconds(1e8)));
  std::unique_lock lock(job_->mutex);
  while (true) {
    const bool all_there = part.peers_left == 0;
    if (all_there && !part.problem.empty()) throw PluginFailure(DIT_ERROR_COMMUNICATION, part.problem);
    const Clock::time_point now = Clock::now();
    if (all_there && now >= part.due) return;
    if (!all_there && !failure().empty()) {
      const std::string words = part.name() + ": " + failure();
      give_up(rank, part, lock, words);
      throw PluginFailure(DIT_ERROR_COMMUNICATION, words);
    }
    if (limited && now >= last) throw PluginFailure(DIT_ERROR_TIMEOUT, late_words(rank, part, limit));
    if (all_there)
      job_->changed.wait_until(lock, limited ? std::min(part.due, last) : part.due);
    else if (limited)
      job_->changed.wait_until(lock, last);
    else
      job_->changed.wait(lock);
  }
}

void LocalGroup::give_up(int rank, LocalPart& part, const std::string& words) {
  std::unique_lock lock(job_->mutex);
  give_up(rank, part, lock, words);
}

// Once the group has failed no copy begins.
void LocalGroup::give_up(int rank, LocalPart& part, std::unique_lock<std::mutex>& lock,
                         const std::string& words) {
  if (failure().empty()) failure_ = "rank " + to_string(rank) + " gave up: " + words;
  job_->changed.notify_all();
  job_->changed.wait(lock, [&] { return part.copies_under_way == 0; });
}

bool LocalGroup::released(const LocalPart& part) {
  const std::scoped_lock lock(job_->mutex);
  return part.copies_under_way == 0 && (part.peers_left == 0 || !failure().empty());
}

std::string LocalGroup::late_words(int rank, const LocalPart& part, Seconds limit) {
  std::string words = part.name() + ": rank " + to_string(rank) + " waited " + seconds_text(limit.count());
  if (part.peers_left == 0)
    return words + "; its data needs " + seconds_text(Seconds(part.due - Clock::now()).count()) +
           " more to arrive";
  std::string missing;
  for (int peer = 0; peer < size(); ++peer)
    if (const std::uint64_t count = started(part.channel, peer); count < part.number)
      missing += (missing.empty() ? " for " : ", ") + ("rank " + to_string(peer)) + " (has started " +
                 plural(count, "exchange") + ")";
  return words + (missing.empty() ? " for a copy to end" : missing);
}

std::shared_ptr<LocalGroup> LocalGroup::subgroup(std::uint64_t number, int colour,
                                                 const std::vector<int>& members) {
  const std::scoped_lock lock(job_->mutex);
  const std::pair key{number, colour};
  Subgroup& entry = subgroups_[key];
  if (entry.group == nullptr) {
    std::vector<int> nodes;
    for (const int member : members) nodes.push_back(nodes_[static_cast<std::size_t>(member)]);
    entry.group = std::make_shared<LocalGroup>(job_, std::move(nodes), has_nodes_);
  }
  std::shared_ptr<LocalGroup> group = entry.group;
  if (++entry.taken == members.size()) subgroups_.erase(key);
  return group;
}

}  // namespace dit
