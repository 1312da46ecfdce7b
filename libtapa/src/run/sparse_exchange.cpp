#include "run/sparse_exchange.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "run/unfinished.hpp"

namespace tapa {

SparseExchange::SparseExchange(int rank, int ranks)
    : rank_(rank),
      send_(static_cast<std::size_t>(ranks)),
      recv_(static_cast<std::size_t>(ranks), {nullptr, std::numeric_limits<std::size_t>::max(), 1}) {
  recv_[static_cast<std::size_t>(rank)] = {};  // what is for itself does not travel
}

void SparseExchange::drop() {
  for (const SparseMessage& message : messages_) send_[static_cast<std::size_t>(message.to)] = {};
  messages_.clear();
}

void SparseExchange::clear() {
  drop();
  contribution_ = 0;
  failure_ = nullptr;
  inbox_.clear(send_.size());
}

bool SparseExchange::add(int to, std::span<const std::byte> data) {
  ShmBlock& block = send_[static_cast<std::size_t>(to)];
  if (block.announced) return false;
  block = {const_cast<std::byte*>(data.data()), data.size(), 0, true};
  messages_.push_back({to, data});
  return true;
}

void SparseExchange::be_wrong() {
  drop();
  contribution_ = (std::uint64_t{1} << kRankBits) + static_cast<std::uint64_t>(rank_);
}

/// Takes the message to itself out of what is sent.
void SparseExchange::keep_own() {
  const auto own = std::ranges::find(messages_, rank_, &SparseMessage::to);
  if (own == messages_.end()) return;
  try {
    inbox_.scatter(static_cast<std::size_t>(rank_), 0, own->data.size(), own->data.data());
  } catch (const std::exception&) {
    failure_ = std::current_exception();
  }
  send_[static_cast<std::size_t>(rank_)] = {};
  messages_.erase(own);
}

void SparseExchange::begin(ShmBuffers& buffers) {
  keep_own();
  by_memory_ = true;
  memory_.begin(buffers, send_, recv_, &inbox_);
  memory_.contribute(contribution_);
}

void SparseExchange::begin(const MessageSpace& space, int first_tag) {
  keep_own();
  by_memory_ = false;
  try {
    by_messages_.start(space, first_tag, rank_, messages_, contribution_, inbox_);
  } catch (const std::bad_alloc&) {
    failure_ = std::current_exception();
    be_wrong();
    by_messages_.start(space, first_tag, rank_, messages_, contribution_, inbox_);
  }
}

bool SparseExchange::advance() {
  if (!(by_memory_ ? memory_.advance() : by_messages_.test())) return false;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  inbox_.close();
  return true;
}

std::size_t SparseExchange::bytes_sent() const {
  std::size_t sum = 0;
  for (const SparseMessage& message : messages_) sum += message.data.size();
  return sum;
}

std::string SparseExchange::waits_for() const {
  return by_memory_ ? tapa::waits_for(memory_) : by_messages_.waits_for();
}

}  // namespace tapa
