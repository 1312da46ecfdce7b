// Blocks that stay in their sender's memory: how their readers get them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "run/shm_exchange.hpp"

namespace tapa {

/// A block that stays in its sender's memory.
void ShmExchange::fetch(std::size_t member, BlockPlace place, std::size_t bytes) {
  fetched_ = true;
  if (const std::byte* const seen = buffers_->view(member, place, bytes)) {
    deliver(member, seen, bytes, bytes);
  } else if (!attach(member, place.at, bytes)) {
    refused_.push_back(static_cast<std::uint32_t>(member));
    refused_bytes_.resize(buffers_->members());
    refused_bytes_[member] = bytes;
    buffers_->ask(member);
    return;
  }
  if (!tells_together()) buffers_->tell_read(member);
}

/// False: the kernel refuses, although it did not when the members connected.
bool ShmExchange::attach(std::size_t member, std::uint64_t address, std::size_t bytes) {
  if (refuse(member, bytes)) return true;
  std::byte* const direct = place(member);
  std::byte* const to = direct != nullptr ? direct : packer_->room(member, false);
  if (!buffers_->attach(member, address, {to, bytes})) return false;
  got_[member] = bytes;
  if (direct == nullptr) scatter(member, 0, bytes, to);
  return true;
}

/// Takes what owners have given of blocks that the kernel did not show.
void ShmExchange::take_given() {
  std::erase_if(refused_, [this](std::uint32_t m) {
    const std::byte* const piece = buffers_->given(m);
    if (piece == nullptr) return false;
    const std::size_t whole = refused_bytes_[m];
    deliver(m, piece, std::min(buffers_->piece_bytes(), whole - got_[m]), whole);
    const bool complete = got_[m] == whole;
    if (!complete) buffers_->ask(m);
    if (complete && !tells_together()) buffers_->tell_read(m);
    return complete;
  });
}

/// Gives readers their blocks to whom the kernel did not show them. Looked for now and then, as it is rare.
void ShmExchange::give_pieces() {
  constexpr unsigned every = 32;
  if (++looks_ % every != 0) return;
  for (const std::uint32_t m : readers_) {
    std::byte* const to = buffers_->asked(m);
    if (to == nullptr) continue;
    buffers_->stop_attach();
    const std::size_t whole = uniform_ ? bytes_ : send_[m].bytes;
    const std::byte* const from = uniform_ ? send_base_ + m * bytes_ : sent(m);
    given_.resize(buffers_->members());
    const std::size_t bytes = std::min(buffers_->piece_bytes(), whole - given_[m]);
    std::memcpy(to, from + given_[m], bytes);
    given_[m] += bytes;
    buffers_->give(m);
  }
}

}  // namespace tapa
