#include "known_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dit::conformance {
namespace {

constexpr std::byte untouched{0xa5};
constexpr std::size_t gap = 3;

// What one rank sends to another.
class Content {
 public:
  Content(std::uint64_t seed, int sender, int receiver)
      : bits_(mix(seed, static_cast<std::uint64_t>(sender), static_cast<std::uint64_t>(receiver))) {}
  [[nodiscard]] std::byte operator[](std::size_t index) const {
    return static_cast<std::byte>((bits_ ^ (index * 167)) + (index >> 8) * 59);
  }

 private:
  std::uint64_t bits_;
};

// Reverse order of the ranks, gaps around all blocks. Returns the length of the buffer.
std::size_t lay_out(const std::vector<std::size_t>& bytes, std::vector<dit_block>& blocks) {
  blocks.resize(bytes.size());
  std::size_t end = gap;
  for (std::size_t peer = bytes.size(); peer-- > 0;) {
    blocks[peer] = {end, bytes[peer]};
    end += bytes[peer] + gap;
  }
  return end;
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  std::uint64_t state = 0x9e3779b97f4a7c15;
  for (const std::uint64_t value : {a, b, c, d}) {  // the finaliser of splitmix64, for each value
    state += value + 0x9e3779b97f4a7c15;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
    state ^= state >> 31;
  }
  return state;
}

std::vector<std::uint32_t> active_rows(const Shape& shape, int sender, int receiver, bool at_sender) {
  const auto from = static_cast<std::uint64_t>(sender), to = static_cast<std::uint64_t>(receiver);
  const std::size_t rows = shape.rows(sender, receiver);
  std::size_t left = mix(shape.selection_seed, from, to) % (rows + 1);
  std::vector<std::uint32_t> active;
  for (std::size_t row = 0; row < rows && left > 0; ++row) {
    if (mix(shape.selection_seed + (at_sender ? 1 : 2), from, to, row) % (rows - row) >= left) continue;
    active.push_back(static_cast<std::uint32_t>(row));
    --left;
  }
  return active;
}

KnownExchange::KnownExchange(const ExchangeContext& context, Shape shape, std::uint64_t seed)
    : shape_(std::move(shape)),
      seed_(seed),
      rank_(context.rank()),
      level_count_(static_cast<int>(context.levels().size())) {
  const int size = context.size();
  std::vector<std::size_t> to, from;
  for (int peer = 0; peer < size; ++peer) {
    levels_.push_back(context.level_of(peer));
    to.push_back(shape_.rows(rank_, peer) * shape_.row_bytes);
    from.push_back(shape_.rows(peer, rank_) * shape_.row_bytes);
    send_lists_.push_back(active_rows(shape_, rank_, peer, true));
    recv_lists_.push_back(active_rows(shape_, peer, rank_, false));
  }
  send_.assign(lay_out(to, send_blocks_), untouched);
  recv_.assign(lay_out(from, recv_blocks_), untouched);
  for (int peer = 0; peer < size; ++peer) {
    const dit_block& block = send_blocks_[static_cast<std::size_t>(peer)];
    const Content content(seed_, rank_, peer);
    for (std::size_t i = 0; i < block.bytes; ++i) send_[block.offset + i] = content[i];
  }
  sent_copy_ = send_;
  fill_in_call();
}

void KnownExchange::fill_in_call() {
  for (std::size_t peer = 0; peer < levels_.size(); ++peer) {
    send_counts_.push_back(send_lists_[peer].size());
    recv_counts_.push_back(recv_lists_[peer].size());
    send_rows_.push_back(send_lists_[peer].data());
    recv_rows_.push_back(recv_lists_[peer].data());
  }
  selection_.struct_size = sizeof(selection_);
  selection_.id = shape_.selection_id;
  selection_.row_bytes = shape_.row_bytes;
  selection_.boundary = shape_.boundary;
  selection_.send_counts = send_counts_.data();
  selection_.send_rows = send_rows_.data();
  selection_.recv_counts = recv_counts_.data();
  selection_.recv_rows = recv_rows_.data();
  call_.struct_size = sizeof(call_);
  call_.send = send_.data();
  call_.recv = recv_.data();
  call_.send_blocks = send_blocks_.data();
  call_.recv_blocks = recv_blocks_.data();
  call_.selection = shape_.boundary == Shape::no_selection ? nullptr : &selection_;
  call_.label = "conformance";
}

bool KnownExchange::selected(int peer) const {
  return call_.selection != nullptr && peer != rank_ &&
         levels_[static_cast<std::size_t>(peer)] >= shape_.boundary;
}

std::vector<std::byte> KnownExchange::expected() const {
  std::vector<std::byte> buffer(recv_.size(), untouched);
  for (int peer = 0; peer < static_cast<int>(levels_.size()); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    const dit_block& block = recv_blocks_[index];
    const Content content(seed_, peer, rank_);
    if (!selected(peer)) {
      for (std::size_t i = 0; i < block.bytes; ++i) buffer[block.offset + i] = content[i];
      continue;
    }
    const std::vector<std::uint32_t> from = active_rows(shape_, peer, rank_, true);
    const std::vector<std::uint32_t>& to = recv_lists_[index];
    for (std::size_t row = 0; row < to.size(); ++row)
      for (std::size_t i = 0; i < shape_.row_bytes; ++i)
        buffer[block.offset + to[row] * shape_.row_bytes + i] = content[from[row] * shape_.row_bytes + i];
  }
  return buffer;
}

std::string KnownExchange::describe_byte(std::size_t offset, std::byte expected) const {
  const std::string values = std::to_string(std::to_integer<int>(recv_[offset])) + ", expected " +
                             std::to_string(std::to_integer<int>(expected)) +
                             " (165 is what was there before)";
  for (std::size_t peer = 0; peer < recv_blocks_.size(); ++peer) {
    const dit_block& block = recv_blocks_[peer];
    if (offset < block.offset || offset >= block.offset + block.bytes) continue;
    return "byte " + std::to_string(offset - block.offset) + " of the " + std::to_string(block.bytes) +
           " from rank " + std::to_string(peer) + " is " + values;
  }
  return "byte " + std::to_string(offset) + " of the receive buffer, outside of all blocks, is " + values;
}

std::string KnownExchange::problem() const {
  if (send_ != sent_copy_) return "the send buffer was changed";
  const std::vector<std::byte> right = expected();
  const auto [wrong, expected] = std::ranges::mismatch(recv_, right);
  if (wrong == recv_.end()) return {};
  return describe_byte(static_cast<std::size_t>(wrong - recv_.begin()), *expected);
}

std::vector<std::uint64_t> KnownExchange::sent_bytes() const {
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(level_count_));
  for (int peer = 0; peer < static_cast<int>(levels_.size()); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    if (peer == rank_) continue;
    bytes[static_cast<std::size_t>(levels_[index])] +=
        selected(peer) ? send_lists_[index].size() * shape_.row_bytes : send_blocks_[index].bytes;
  }
  return bytes;
}

std::string exchange_problem(ExchangeContext& context, const Shape& shape, std::uint64_t seed) {
  KnownExchange exchange(context, shape, seed);
  context.start(exchange.call()).wait();
  return exchange.problem();
}

}  // namespace dit::conformance
