#include "transfer/wire_run.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace dit {
namespace {

constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value,
                                        AttentionTensor::output};

std::vector<int> levels_of_peers(const ExchangeContext& whole, const ExchangeContext& context) {
  const std::vector<std::string> names = context.levels();
  std::vector<int> levels;
  for (int peer = 0; peer < context.size(); ++peer) {
    levels.push_back(peer == context.rank()
                         ? 0
                         : whole.level_named(names[static_cast<std::size_t>(context.level_of(peer))]));
  }
  return levels;
}

PeerFlags remembered_blocks(const WirePlan& plan, std::span<const int> peer_levels, int rank,
                            AttentionTensor tensor, int layer) {
  const auto flags = [&](WireEnd end) {
    std::vector<std::uint8_t> of_peers;  // of their blocks
    for (std::size_t peer = 0; peer < peer_levels.size(); ++peer) {
      const bool other = peer != static_cast<std::size_t>(rank);
      for (const TokenPart tokens : plan.parts()) {
        const bool known = other && plan.remembers(tensor, peer_levels[peer], layer, end, tokens);
        of_peers.push_back(known ? 1 : 0);
      }
    }
    return of_peers;
  };
  return {flags(WireEnd::sender), flags(WireEnd::receiver)};
}

/// Peer after peer, the parts of each.
ExchangeLayout blocks_of(const UlyssesLayout& layout, std::span<const TokenPart> parts,
                         AttentionTensor tensor, int rank, int group, int groups) {
  std::vector<ExchangeLayout> apart;
  for (const TokenPart tokens : parts) {
    apart.push_back(layout.exchange(tensor, rank, group, groups, tokens));
  }
  ExchangeLayout blocks;
  for (std::size_t peer = 0; peer < apart.front().send.size(); ++peer) {
    for (ExchangeLayout& part : apart) {
      blocks.send.push_back(std::move(part.send[peer]));
      blocks.recv.push_back(std::move(part.recv[peer]));
    }
  }
  return blocks;
}

MemoryOptions memory_of(const WirePlan& plan) {
  return {plan.policy().momentum, plan.ages(), plan.policy().most_age};
}

std::vector<WireMode> in_bf16(std::vector<WireMode> modes) {
  for (WireMode& mode : modes) {
    if (!mode.is_exact()) {
      mode = WireMode{};
      mode.format = WireFormat::bf16;
    }
  }
  return modes;
}

void require_below(const char* name, int value, int count) {
  if (value < 0 || value >= count) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) + ": expected 0 to " +
                                std::to_string(count - 1) + ", as the policy's run has them");
  }
}

}  // namespace

WireRun::WireRun(const WirePolicy& policy, int layers, int steps, const ExchangeContext& whole,
                 ExchangeContext& context, const UlyssesLayout& layout, int groups, WireElement element)
    : plan_(policy, {layers, steps, whole.levels(), whole.slow_level()}),
      layout_(layout),
      rank_(context.rank()),
      groups_(groups),
      element_(element),
      peer_levels_(levels_of_peers(whole, context)) {
  for (const AttentionTensor tensor : kTensors) {
    for (int layer = 0; layer < layers; ++layer) {
      resolve_layer(tensor, layer);
    }
  }
  const std::uint64_t exchanges =
      static_cast<std::uint64_t>(kAttentionTensors) * static_cast<std::uint64_t>(groups);
  first_id_ = context.take_layout_ids(resolved_.size() * exchanges * 2);
}

/// The next layer's entries of at_places_.
void WireRun::resolve_layer(AttentionTensor tensor, int layer) {
  const int steps = plan_.shape().steps, first = plan_.first_alike(layer);
  const auto entries = static_cast<std::ptrdiff_t>(steps) * kBranches;
  if (first != layer) {  // what thousands of V-Major's ratios resolve to is not looked for once a layer
    const std::vector<std::uint32_t> like(at_places_.end() - (layer - first) * entries,
                                          at_places_.end() - (layer - first - 1) * entries);
    at_places_.insert(at_places_.end(), like.begin(), like.end());
    return;
  }
  for (int step = 0; step < steps; ++step) {
    for (int branch = 0; branch < kBranches; ++branch) {
      std::vector<WireMode> modes;
      for (int level = 0; level < static_cast<int>(plan_.shape().levels.size()); ++level) {
        for (const TokenPart tokens : plan_.parts()) {
          modes.push_back(plan_.mode(tensor, level, layer, step, branch, tokens));
        }
      }
      at_places_.push_back(number_of(std::move(modes)));
    }
  }
}

/// A new one when these modes are not there yet, and with them what the guard makes of them.
std::uint32_t WireRun::number_of(std::vector<WireMode> by_level) {
  const auto found = std::find_if(resolved_.begin(), resolved_.end(),
                                  [&](const ResolvedWire& known) { return known.by_level == by_level; });
  if (found != resolved_.end()) {
    return static_cast<std::uint32_t>(found - resolved_.begin());
  }
  ResolvedWire made;
  made.number = resolved_.size();
  for (const WireMode& mode : by_level) {
    made.exact = made.exact && mode.is_exact();
    made.late = made.late || mode.late;
  }
  made.watched = plan_.policy().guard > 0 && !made.exact;
  for (std::size_t peer = 0; peer < peer_levels_.size(); ++peer) {
    const bool own = peer == static_cast<std::size_t>(rank_);  // never leaves the rank
    for (std::size_t part = 0; part < blocks_of_peer(); ++part) {
      const std::size_t at = static_cast<std::size_t>(peer_levels_[peer]) * blocks_of_peer() + part;
      made.by_block.push_back(own ? WireMode{} : by_level[at]);
    }
  }
  made.by_level = std::move(by_level);
  const auto number = static_cast<std::uint32_t>(made.number);
  const std::vector<WireMode> plain = in_bf16(made.by_level);
  const bool same = plain == made.by_level;
  resolved_.push_back(std::move(made));
  guarded_.push_back(number);
  if (!same) {
    const std::uint32_t other = number_of(plain);
    guarded_[number] = other;
  }
  return number;
}

std::size_t WireRun::index_of(AttentionTensor tensor, const TransferPlace& place) const {
  const int layers = plan_.shape().layers, steps = plan_.shape().steps;
  require_below("layer", place.layer, layers);
  require_below("step", place.step, steps);
  require_below("branch", place.branch, kBranches);
  const auto at = [](int number) { return static_cast<std::size_t>(number); };
  return ((at(static_cast<int>(tensor)) * at(layers) + at(place.layer)) * at(steps) + at(place.step)) *
             kBranches +
         at(place.branch);
}

const ResolvedWire& WireRun::resolve(AttentionTensor tensor, const TransferPlace& place) const {
  return resolved_[at_places_[index_of(tensor, place)]];
}

const ResolvedWire& WireRun::guarded(const ResolvedWire& resolved) const {
  return resolved_[guarded_[resolved.number]];
}

bool WireRun::needs_host() const {
  return std::ranges::any_of(resolved_, [](const ResolvedWire& way) {
    return way.late || way.watched || std::ranges::any_of(way.by_level, &WireMode::leaves_rows);
  });
}

bool WireRun::are_alike(int step, int other, int branch) const {
  for (const AttentionTensor tensor : kTensors) {
    for (int layer = 0; layer < plan_.shape().layers; ++layer) {
      if (at_places_[index_of(tensor, {layer, step, branch})] !=
          at_places_[index_of(tensor, {layer, other, branch})]) {
        return false;
      }
    }
  }
  return true;
}

int WireRun::first_alike(int step, int branch) const {
  require_below("step", step, plan_.shape().steps);
  require_below("branch", branch, kBranches);
  if (needs_host()) {
    return -1;
  }
  int first = 0;
  while (!are_alike(first, step, branch)) {
    ++first;
  }
  return first;
}

std::uint64_t WireRun::layout_id(AttentionTensor tensor, int group, const ResolvedWire& resolved,
                                 WirePart part) const {
  // Keys and values always go alike; queries go like them where no head is shared.
  const bool like_value =
      tensor == AttentionTensor::key || (tensor == AttentionTensor::query && layout_.queries_go_like_keys());
  const auto sizes_of = static_cast<std::uint64_t>(like_value ? AttentionTensor::value : tensor);
  const std::uint64_t exchange = static_cast<std::uint64_t>(group) * kAttentionTensors + sizes_of;
  return first_id_ + (exchange * resolved_.size() + resolved.number) * 2 + static_cast<std::uint64_t>(part);
}

bool WireRun::remembers(AttentionTensor tensor) const {
  for (int level = 0; level < static_cast<int>(plan_.shape().levels.size()); ++level) {
    for (int layer = 0; layer < plan_.shape().layers; ++layer) {
      // A sender's memory has its receiver's, too.
      if (plan_.remembers(tensor, level, layer, WireEnd::receiver)) {
        return true;
      }
    }
  }
  return false;
}

ExchangeLayout WireRun::blocks(AttentionTensor tensor, int group) const {
  return blocks_of(layout_, plan_.parts(), tensor, rank_, group, groups_);
}

std::array<double, kAttentionTensors> WireRun::text_shares() const {
  const AttentionShape& shape = layout_.shape();
  const auto image = static_cast<double>(shape.image_tokens);
  std::array<double, kAttentionTensors> shares{};
  for (const AttentionTensor tensor : kTensors) {
    auto text = static_cast<double>(shape.text_tokens);
    if (shape.text == TextPlacement::replicated) {  // every rank has it, and gets all of its output
      text *= tensor == AttentionTensor::output ? layout_.ranks() : 0;
    }
    shares[static_cast<std::size_t>(tensor)] = text > 0 ? text / (text + image) : 0;
  }
  return shares;
}

PeerFlags WireRun::remembered(AttentionTensor tensor, int layer) const {
  return remembered_blocks(plan_, peer_levels_, rank_, tensor, layer);
}

SampleRows WireRun::sample_rows(AttentionTensor tensor) const {
  SampleRows rows;
  rows.samples = layout_.shape().batch;
  rows.blocks_of_peer = blocks_of_peer();
  const bool may_stay = tensor != AttentionTensor::output && rows.blocks_of_peer == 1;
  for (int peer = 0; peer < layout_.ranks() && may_stay; ++peer) {
    rows.whole.sent.push_back(layout_.scatters_all_rows(tensor, rank_, peer) ? 1 : 0);
    rows.whole.received.push_back(layout_.scatters_all_rows(tensor, peer, rank_) ? 1 : 0);
  }
  return rows;
}

MemoryOptions WireRun::memory_options() const {
  return memory_of(plan_);
}

CacheBytes WireRun::memory(int units) const {
  return wire_memory(plan_, layout_, rank_, groups_, units, peer_levels_);
}

std::uint64_t WireRun::late_bytes(int units) const {
  std::uint64_t bytes = 0;
  for (const AttentionTensor tensor : kTensors) {
    for (int group = 0; group < groups_; ++group) {
      bytes += late_bytes_of(tensor, group);
    }
  }
  return bytes * static_cast<std::uint64_t>(units);
}

/// Of each layer's longest step.
std::uint64_t WireRun::late_bytes_of(AttentionTensor tensor, int group) const {
  const CodedBlocks coded(blocks(tensor, group), element_, sample_rows(tensor));
  std::vector<CodedBlocks::Sizes> sizes;  // of resolved_
  for (const ResolvedWire& resolved : resolved_) {
    sizes.push_back(resolved.late ? coded.sizes(resolved.by_block, WirePart::later) : CodedBlocks::Sizes{});
  }
  const WirePlan::Shape& shape = plan_.shape();
  const auto entries = static_cast<std::size_t>(shape.steps) * kBranches;
  std::uint64_t bytes = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    std::size_t send = 0, recv = 0;
    for (const std::uint32_t at : std::span(at_places_).subspan(index_of(tensor, {layer, 0, 0}), entries)) {
      send = std::max(send, sizes[at].send_bytes);
      recv = std::max(recv, sizes[at].recv_bytes);
    }
    bytes += send + recv;
  }
  return bytes;
}

CacheBytes wire_memory(const WirePlan& plan, const UlyssesLayout& layout, int rank, int groups, int units,
                       std::span<const int> peer_levels) {
  CacheBytes bytes;
  for (int layer = 0; layer < plan.shape().layers; ++layer) {
    for (const AttentionTensor tensor : kTensors) {
      const PeerFlags remembered = remembered_blocks(plan, peer_levels, rank, tensor, layer);
      for (int group = 0; group < groups; ++group) {
        const CacheBytes each = ExchangeMemory::bytes(
            blocks_of(layout, plan.parts(), tensor, rank, group, groups), remembered, memory_of(plan));
        bytes.reference += each.reference * static_cast<std::uint64_t>(units);
        bytes.received += each.received * static_cast<std::uint64_t>(units);
      }
    }
  }
  return bytes;
}

}  // namespace dit
