#include "run/sparse_inbox.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "transport/transport.hpp"

namespace tapa {

void SparseInbox::clear(std::size_t ranks) {
  std::size_t kept = 0;
  for (const std::size_t source : sources_) {
    Message& message = messages_[source];
    message.came = false;
    message.data.clear();
    kept += message.data.capacity();
  }
  sources_.clear();
  if (kept > kKeptBytes) messages_.clear();
  messages_.resize(ranks);
  sources_.reserve(ranks);
}

void SparseInbox::note(std::size_t source) {
  if (messages_[source].came) return;
  messages_[source].came = true;
  sources_.push_back(source);
}

std::byte* SparseInbox::open(std::size_t source, std::size_t bytes) {
  note(source);
  std::vector<std::byte>& data = messages_[source].data;
  try {
    data.resize(bytes);
  } catch (const std::exception&) {
    throw TransportError::no_memory("no memory for a message of " + std::to_string(bytes) +
                                    " bytes from rank " + std::to_string(source));
  }
  return data.data();
}

void SparseInbox::scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) {
  const std::size_t end = std::max(begin + bytes, messages_[member].data.size());
  std::byte* const to = open(member, end) + begin;
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

std::byte* SparseInbox::room(std::size_t member, bool, std::size_t bytes) {
  return open(member, bytes);
}

void SparseInbox::close() {
  std::ranges::sort(sources_);
}

std::size_t SparseInbox::bytes() const {
  std::size_t sum = 0;
  for (const std::size_t source : sources_) sum += messages_[source].data.size();
  return sum;
}

}  // namespace tapa
