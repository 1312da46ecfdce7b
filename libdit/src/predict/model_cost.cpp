#include "predict/model_cost.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace dit {
namespace {

template <class Number>
void require(bool good, const char* name, Number value, const char* expected) {
  if (!good) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) + ": expected " + expected);
  }
}

void check(const ForwardShape& shape) {
  require(shape.width >= 1, "width", shape.width, "at least 1");
  require(shape.patch_elements >= 0, "patch_elements", shape.patch_elements, "0 or more");
  require(shape.element_bytes >= 1, "element_bytes", shape.element_bytes, "at least 1");
  require(shape.ranks >= 1, "ranks", shape.ranks, "at least 1");
  require(shape.ranks_per_node >= 1, "ranks_per_node", shape.ranks_per_node, "at least 1");
  require(shape.mlp_ratio >= 0 && std::isfinite(shape.mlp_ratio), "mlp_ratio", shape.mlp_ratio, "0 or more");
  const auto fraction = [](const char* name, double value) {
    require(value >= 0 && value <= 1, name, value, "a fraction between 0 and 1");
  };
  fraction("scatter_share", shape.scatter_share);
  fraction("output_share", shape.output_share);
}

void check(const MachineRates& rates, const ForwardShape& shape) {
  const auto positive = [](const char* name, double value) {
    require(value > 0 && std::isfinite(value), name, value, "more than 0");
  };
  const auto not_negative = [](const char* name, double value) {
    require(value >= 0 && std::isfinite(value), name, value, "0 or more");
  };
  positive("linear_flops", rates.linear_flops);
  positive("attention_flops", rates.attention_flops);
  not_negative("memory_bytes_per_second", rates.memory_bytes_per_second);
  not_negative("step_seconds", rates.step_seconds);
  not_negative("compute_slots", rates.compute_slots);
  not_negative("fast.seconds_per_message", rates.fast.seconds_per_message);
  not_negative("slow.seconds_per_message", rates.slow.seconds_per_message);
  // Rates of links that nothing crosses need not be known.
  if (shape.ranks > 1 && shape.ranks_per_node > 1)
    positive("fast.bytes_per_second", rates.fast.bytes_per_second);
  if (shape.ranks > shape.ranks_per_node) positive("slow.bytes_per_second", rates.slow.bytes_per_second);
}

UlyssesLayout layout_of(const ForwardShape& shape) {
  check(shape);
  return UlyssesLayout(shape.attention, shape.ranks);
}

/// b n of the busiest rank.
double busiest_rows(const ForwardShape& shape, const UlyssesLayout& layout) {
  std::int64_t rows = 0;
  for (int rank = 0; rank < shape.ranks; ++rank) rows = std::max(rows, layout.sequence_rows(rank));
  return static_cast<double>(shape.attention.batch * rows);
}

/// b q N h d of the busiest rank.
double busiest_attention(const ForwardShape& shape, const UlyssesLayout& layout, int group, int groups) {
  double most = 0;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto pairs =
        static_cast<double>(layout.query_tokens(rank).size()) * static_cast<double>(layout.tokens());
    most = std::max(most, pairs * static_cast<double>(layout.heads(rank, group, groups).size()));
  }
  return most * static_cast<double>(shape.attention.batch * shape.attention.head_dim);
}

double query_width(const ForwardShape& shape) {
  return static_cast<double>(shape.attention.heads * shape.attention.head_dim);
}
double key_width(const ForwardShape& shape) {
  return static_cast<double>(shape.attention.kv_heads * shape.attention.head_dim);
}

/// Elements that a compute step reads and writes beside its matrix products.
double step_elements(StepRole role, const ForwardShape& shape, const UlyssesLayout& layout) {
  const double rows = busiest_rows(shape, layout);
  const auto width = static_cast<double>(shape.width);
  switch (role) {
    case StepRole::value:
    case StepRole::last:
      return 4 * rows * width;
    case StepRole::query:
      return 4 * rows * query_width(shape);
    case StepRole::key:
      return 4 * rows * key_width(shape);
    case StepRole::score:
      return 2 * rows * key_width(shape);
    case StepRole::finish:
      return 3 * rows * width;
    case StepRole::mlp:
      return (7 + 2 * shape.mlp_ratio) * rows * width;
    case StepRole::mlp_in:
      return 2 * shape.mlp_ratio * rows * width;
    case StepRole::mlp_out:
      return rows * width;
    default:
      return 0;
  }
}

/// An exchange in which rank r sends give[r] * take[p] bytes to rank p.
struct Product {
  std::vector<double> give;
  std::vector<double> take;
};

Product product_of(StepRole role, const ForwardShape& shape, const UlyssesLayout& layout, int group,
                   int groups) {
  Product product;
  const auto tokens = static_cast<double>(layout.tokens());
  const auto element =
      static_cast<double>(shape.attention.batch * shape.attention.head_dim * shape.element_bytes);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto rows = static_cast<double>(layout.sequence_rows(rank));
    const bool keys = role == StepRole::scatter_value || role == StepRole::scatter_key;
    const Range heads = keys ? layout.kv_heads(rank, group, groups) : layout.heads(rank, group, groups);
    const double share =
        keys || tokens == 0 ? 1 : static_cast<double>(layout.query_tokens(rank).size()) / tokens;
    product.give.push_back(rows * element);
    product.take.push_back(static_cast<double>(heads.size()) * share);
  }
  if (role == StepRole::gather_output) std::swap(product.give, product.take);
  return product;
}

/// Sums of a product's sides over the ranks of nodes and lanes; a lane is the ranks with the same place in
/// their nodes.
class Sums {
 public:
  Sums(const std::vector<double>& side, int ranks_per_node)
      : per_node_(static_cast<std::size_t>(ranks_per_node)),
        nodes_((side.size() + per_node_ - 1) / per_node_, 0),
        lanes_(std::min(side.size(), per_node_), 0) {
    for (std::size_t rank = 0; rank < side.size(); ++rank) {
      nodes_[rank / per_node_] += side[rank];
      lanes_[rank % per_node_] += side[rank];
      all_ += side[rank];
    }
  }
  [[nodiscard]] double node_of(std::size_t rank) const { return nodes_[rank / per_node_]; }
  [[nodiscard]] double lane_of(std::size_t rank) const { return lanes_[rank % per_node_]; }
  [[nodiscard]] double all() const { return all_; }

 private:
  std::size_t per_node_;
  std::vector<double> nodes_;
  std::vector<double> lanes_;
  double all_ = 0;
};

void check_exchange(StepRole role) {
  if (!is_exchange(role)) throw std::invalid_argument(std::string(to_string(role)) + " is not an exchange");
}

/// `slow_share`: of rows that travel between nodes.
ExchangeVolume volume_of(const Product& product, int ranks_per_node, bool two_level, double slow_share) {
  const Sums give(product.give, ranks_per_node);
  const Sums take(product.take, ranks_per_node);
  ExchangeVolume volume;
  for (std::size_t rank = 0; rank < product.give.size(); ++rank) {
    const double out = product.give[rank];
    const double in = product.take[rank];
    const double beyond_out = slow_share * (take.all() - take.node_of(rank));
    const double beyond_in = slow_share * (give.all() - give.node_of(rank));
    volume.rank_slow_bytes = std::max(volume.rank_slow_bytes, out * beyond_out);
    volume.node_slow_bytes =
        std::max({volume.node_slow_bytes, give.node_of(rank) * beyond_out, take.node_of(rank) * beyond_in});
    double fast_out = out * (take.node_of(rank) - in);
    double fast_in = (give.node_of(rank) - out) * in;
    if (two_level) {
      // What goes to other nodes first goes to the node's rank in the receiver's lane.
      const double own_lane_elsewhere = take.lane_of(rank) - in;
      fast_out += out * (beyond_out - slow_share * own_lane_elsewhere);
      fast_in += (give.node_of(rank) - out) * slow_share * own_lane_elsewhere;
    }
    volume.fast_bytes = std::max({volume.fast_bytes, fast_out, fast_in});
  }
  return volume;
}

double exchange_seconds(const ExchangeVolume& volume, const MachineRates& rates) {
  const auto level = [](double bytes, int messages, const LinkRates& link) {
    return messages * link.seconds_per_message + (bytes > 0 ? bytes / link.bytes_per_second : 0);
  };
  const double slow = level(volume.node_slow_bytes, volume.slow_messages, rates.slow);
  const double fast = level(volume.fast_bytes, volume.fast_messages, rates.fast);
  return rates.two_level ? slow + fast : std::max(slow, fast);
}

}  // namespace

double step_flops(StepRole role, const ForwardShape& shape, int group, int groups) {
  const UlyssesLayout layout = layout_of(shape);
  if (role == StepRole::attention) return 4 * busiest_attention(shape, layout, group, groups);
  const double rows = busiest_rows(shape, layout);
  const auto width = static_cast<double>(shape.width);
  switch (role) {
    case StepRole::prepare:
    case StepRole::last:
      return 2 * rows * width * static_cast<double>(shape.patch_elements);
    case StepRole::query:
    case StepRole::finish:
      return 2 * rows * width * query_width(shape);
    case StepRole::value:
    case StepRole::key:
      return 2 * rows * width * key_width(shape);
    case StepRole::mlp:
      return 4 * rows * width * width * shape.mlp_ratio;
    case StepRole::mlp_in:
    case StepRole::mlp_out:
      return 2 * rows * width * width * shape.mlp_ratio;
    default:
      return 0;
  }
}

ExchangeVolume exchange_volume(StepRole role, const ForwardShape& shape, bool two_level, int group,
                               int groups) {
  check_exchange(role);
  const UlyssesLayout layout = layout_of(shape);
  const bool output = role == StepRole::gather_output;
  ExchangeVolume volume = volume_of(product_of(role, shape, layout, group, groups), shape.ranks_per_node,
                                    two_level, output ? shape.output_share : shape.scatter_share);
  const int local = std::min(shape.ranks, shape.ranks_per_node);
  const int nodes = (shape.ranks + shape.ranks_per_node - 1) / shape.ranks_per_node;
  volume.fast_messages = local - 1;
  volume.slow_messages = two_level ? nodes - 1 : shape.ranks - local;
  return volume;
}

double mean_block_bytes(StepRole role, const ForwardShape& shape, int group, int groups) {
  check_exchange(role);
  const Product product = product_of(role, shape, layout_of(shape), group, groups);
  const auto sum = [](const std::vector<double>& side) {
    return std::accumulate(side.begin(), side.end(), 0.0);
  };
  return sum(product.give) * sum(product.take) / (static_cast<double>(shape.ranks) * shape.ranks);
}

double step_seconds(StepRole role, const ForwardShape& shape, const MachineRates& rates, int group,
                    int groups) {
  check(shape);
  check(rates, shape);
  if (is_exchange(role)) {
    return exchange_seconds(exchange_volume(role, shape, rates.two_level, group, groups), rates);
  }
  const double flops = step_flops(role, shape, group, groups);
  double seconds = flops / (role == StepRole::attention ? rates.attention_flops : rates.linear_flops);
  if (rates.memory_bytes_per_second > 0) {
    const double elements = step_elements(role, shape, layout_of(shape));
    seconds += elements * static_cast<double>(shape.element_bytes) / rates.memory_bytes_per_second;
  }
  const double sharing = rates.compute_slots > 0 ? std::max(1.0, shape.ranks / rates.compute_slots) : 1;
  return (seconds + rates.step_seconds) * sharing;
}

void estimate(StepGraph& graph, const ForwardShape& shape, const MachineRates& rates) {
  const auto groups = static_cast<std::size_t>(graph.groups);
  std::vector<Step> known(groups * kStepRoles);  // by role and group
  std::vector<bool> is_known(known.size(), false);
  for (Step& step : graph.steps) {
    const std::size_t index =
        static_cast<std::size_t>(step.role) * groups + static_cast<std::size_t>(step.group);
    if (!is_known[index]) {
      known[index].seconds = step_seconds(step.role, shape, rates, step.group, graph.groups);
      if (is_exchange(step.role)) {
        const ExchangeVolume volume =
            exchange_volume(step.role, shape, rates.two_level, step.group, graph.groups);
        known[index].slow_bytes = static_cast<std::uint64_t>(std::llround(volume.rank_slow_bytes));
      }
      is_known[index] = true;
    }
    step.seconds = known[index].seconds;
    step.slow_bytes = known[index].slow_bytes;
  }
}

}  // namespace dit
