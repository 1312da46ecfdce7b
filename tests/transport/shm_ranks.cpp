#include "shm_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "transport/transport.hpp"

namespace tapa::shm_test {

namespace {

/// What parts of a packed block must be a multiple of, on either side; 0: it is not divided.
std::size_t unit_of(std::size_t bytes, std::size_t member, bool sent) {
  return member % 4 == 3 ? 0 : std::gcd(bytes, sent ? std::size_t{24} : std::size_t{20});
}

}  // namespace

std::byte value(std::size_t src, std::size_t dst, std::size_t at, int call) {
  return static_cast<std::byte>((src * 131 + dst * 31 + at * 7 + static_cast<std::size_t>(call) * 13) & 0xFF);
}

void finish(ShmExchange& exchange) {
  using namespace std::chrono_literals;
  // Who yields on a busy machine comes last, who wakes first: most of these tests' time was spent waiting for
  // a core.
  for (int turn = 0; !exchange.advance(); ++turn) {
    if (turn < 20)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(20us);
  }
}

/// The blocks of a call on both sides.
void Rank::fill(std::vector<ShmBlock>& send, std::vector<ShmBlock>& recv) {
  const std::size_t members = buffers_->members();
  const std::size_t self = buffers_->self();
  for (std::size_t m = 0; m < members; ++m) {
    out_[m].resize(sizes_(self, m, number_));
    for (std::size_t i = 0; i < out_[m].size(); ++i) out_[m][i] = value(self, m, i, number_);
    in_[m].resize(sizes_(m, self, number_) + (m == self ? 0 : more_));
    const bool in_pieces = packed_ && (self + m) % 3 == 0;
    send.push_back({in_pieces ? nullptr : out_[m].data(), out_[m].size(), unit_of(out_[m].size(), m, true)});
    recv.push_back({in_pieces ? nullptr : in_[m].data(), in_[m].size(), unit_of(in_[m].size(), m, false)});
  }
  if (failed_) {
    for (auto* const blocks : {&send, &recv})
      for (ShmBlock& block : *blocks) block = {nullptr, block.bytes, 0};
  }
}

template <class Begin>
void Rank::exchange(const Begin& begin) {
  exchange_.reserve(buffers_->members());
  under_way_(true);
  try {
    begin();
    finish(exchange_);
  } catch (...) {
    under_way_(false);
    throw;
  }
  under_way_(false);
}

std::size_t Rank::call(int number) {
  const std::size_t members = buffers_->members();
  const std::size_t self = buffers_->self();
  number_ = number;
  out_.assign(members, {});
  in_.assign(members, {});
  rooms_.assign(2 * members, {});
  std::vector<ShmBlock> send;
  std::vector<ShmBlock> recv;
  fill(send, recv);
  exchange([&] {
    exchange_.begin(*buffers_, send, recv, this, false, ShmExchange::Compare::nothing, known_);
    if (rooms_taken_) exchange_.take_rooms(self == 1 && overwrites_);
  });
  std::size_t wrong = std::exchange(wrong_parts_, 0);
  wrong += std::exchange(releases_, 0) == 1 ? 0U : 1U;
  for (std::size_t m = 0; m < members; ++m) {
    const std::size_t sent = sizes_(m, self, number);
    for (std::size_t i = 0; i < in_[m].size(); ++i)
      wrong += in_[m][i] == (i < sent ? value(m, self, i, number) : std::byte{0}) ? 0U : 1U;
  }
  return wrong;
}

std::size_t Rank::uniform_call(int number, std::size_t bytes, bool in_place) {
  const std::size_t members = buffers_->members();
  const std::size_t self = buffers_->self();
  Bytes send(members * bytes);
  Bytes recv(members * bytes);
  for (std::size_t m = 0; m < members; ++m)
    for (std::size_t i = 0; i < bytes; ++i) send[m * bytes + i] = value(self, m, i, number);
  if (in_place) recv = send;
  exchange([&] { exchange_.begin(*buffers_, in_place ? recv.data() : send.data(), recv.data(), bytes); });
  std::ranges::fill(send, std::byte{0xEE});  // nobody may read it any more
  std::size_t wrong = 0;
  for (std::size_t m = 0; m < members; ++m)
    for (std::size_t i = 0; i < bytes; ++i)
      wrong += recv[m * bytes + i] == value(m, self, i, number) ? 0U : 1U;
  return wrong;
}

void Rank::gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) {
  if (refuses_) throw TransportError("no such datatype", 3);
  require_sound();
  count_wrong_part(out_[member].size(), unit_of(out_[member].size(), member, true), begin, bytes);
  std::memcpy(to, out_[member].data() + begin, bytes);
}

void Rank::scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) {
  require_sound();
  count_wrong_part(sizes_(member, buffers_->self(), number_), unit_of(in_[member].size(), member, false),
                   begin, bytes);
  std::memcpy(in_[member].data() + begin, from, bytes);
}

void Rank::copy(std::size_t member) {
  require_sound();
  std::ranges::copy(out_[member], in_[member].begin());
}

std::byte* Rank::room(std::size_t member, bool sent, std::size_t bytes) {
  require_sound();
  if (rooms_refused_) throw TransportError("no memory", 3);
  Bytes& room = rooms_[sent ? member : out_.size() + member];
  room.resize(bytes);
  return room.data();
}

void Rank::require_sound() const {
  if (failed_) throw TransportError("no such datatype", 3);
}

void Rank::count_wrong_part(std::size_t whole, std::size_t unit, std::size_t begin, std::size_t bytes) {
  const bool ends = unit != 0 && (bytes % unit == 0 || begin + bytes == whole);
  if (bytes == whole ? begin != 0 : !ends || begin % unit != 0) ++wrong_parts_;
}

std::size_t in_threads(Memory& memory, Region& region, const Sizes& sizes, bool packed,
                       const std::function<std::size_t(Rank&)>& body) {
  std::vector<std::size_t> wrong(region.members);
  std::vector<std::uint64_t> rounds(region.members);
  std::vector<std::thread> threads;
  for (std::size_t self = 0; self < region.members; ++self) {
    threads.emplace_back([&, self] {
      Rank rank(memory.buffers(self, region), sizes, packed);
      wrong[self] = body(rank);
      rounds[self] = rank.buffers().round();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count(rounds, rounds[0]), static_cast<std::ptrdiff_t>(region.members));
  region.rounds = rounds[0];
  return std::accumulate(wrong.begin(), wrong.end(), std::size_t{0});
}

std::size_t in_threads(std::size_t members, const Sizes& sizes, bool packed,
                       const std::function<std::size_t(Rank&)>& body) {
  Memory memory(members);
  Region all{0, members, 0};
  return in_threads(memory, all, sizes, packed, body);
}

std::size_t no_sizes(std::size_t, std::size_t, int) {
  return 0;
}

std::size_t skewed(std::size_t src, std::size_t dst, int call) {
  std::mt19937 random(static_cast<unsigned>(src * 1009 + dst * 31 + static_cast<std::size_t>(call)));
  if (random() % 10 < 4) return 0;
  return random() % 300 + (src == static_cast<std::size_t>(call) % 4 ? random() % 700'000 : 0);
}

}  // namespace tapa::shm_test
