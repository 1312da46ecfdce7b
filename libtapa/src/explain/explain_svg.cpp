#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <utility>

#include "explain/explain.hpp"
#include "explain/explain_format.hpp"

namespace tapa {

namespace {

constexpr double kRadius = 190;      // of the circle of ranks
constexpr double kPanel = 520;       // width of a panel
constexpr double kHigh = 470;        // height of its picture
constexpr double kLeastWidth = 660;  // the line under the title fits
constexpr double kHead = 64;         // caption above a panel
constexpr double kTop = 84;          // title and legend
constexpr double kNodeGap = 0.6;     // between nodes, in places of ranks
constexpr double kGroupGap = 0.22;   // between groups inside a node
constexpr std::size_t kMostArrows = 1500;

// Distinct in hue and in lightness, fast to slow.
constexpr std::array<const char*, 6> kColours = {"#2a9d3f", "#1f6fb4", "#d1342f",
                                                 "#8a4fbf", "#c77f00", "#555555"};

const char* colour_of(std::size_t level) {
  return kColours[level % kColours.size()];
}

struct Point {
  double x = 0, y = 0;
};

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '<'   ? "&lt;"
            : c == '>' ? "&gt;"
            : c == '&' ? "&amp;"
            : c == '"' ? "&quot;"
                       : std::string(1, c);
  }
  return safe;
}

std::string label(double x, double y, const char* style, const std::string& text) {
  return format("<text x='%.1f' y='%.1f' %s>", x, y, style) + escaped(text) + "</text>\n";
}

/// Where each rank sits on the circle: by node, and inside by the groups of all levels.
class Circle {
 public:
  explicit Circle(const Topology& topology)
      : topology_(topology), angle_(static_cast<std::size_t>(topology.ranks)) {
    for (int r = 0; r < topology.ranks; ++r) order_.push_back(r);
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return key(a) < key(b); });
    std::vector<double> place;
    double at = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (i > 0) at += 1 + gap(order_[i - 1], order_[i]);
      place.push_back(at);
    }
    const double around = at + 1 + (topology.nodes() > 1 ? kNodeGap : 0);
    step_ = 2 * std::numbers::pi / around;
    for (std::size_t i = 0; i < order_.size(); ++i)
      angle_[index(order_[i])] = place[i] * step_ - std::numbers::pi / 2;
  }

  [[nodiscard]] Point at(int rank, double radius) const {
    return {radius * std::cos(angle_[index(rank)]), radius * std::sin(angle_[index(rank)])};
  }
  [[nodiscard]] double angle(int rank) const { return angle_[index(rank)]; }
  [[nodiscard]] double step() const { return step_; }
  [[nodiscard]] const std::vector<int>& order() const { return order_; }

  /// Size of a rank's dot, so that neighbours do not touch.
  [[nodiscard]] double dot() const { return std::clamp(step_ * kRadius * 0.42, 1.5, 13.0); }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  [[nodiscard]] std::vector<int> key(int rank) const {
    std::vector<int> key{topology_.node_of(rank)};
    for (auto level = topology_.levels.rbegin(); level != topology_.levels.rend(); ++level) {
      key.push_back(level->group[index(rank)]);
    }
    return key;
  }

  [[nodiscard]] double gap(int a, int b) const {
    if (topology_.node_of(a) != topology_.node_of(b)) return kNodeGap;
    return topology_.level_of(a, b) > 0 ? kGroupGap : 0;
  }

  const Topology& topology_;
  std::vector<double> angle_;
  std::vector<int> order_;
  double step_ = 1;
};

/// All messages of a phase from one rank to another.
struct Arrow {
  int from = 0, to = 0;
  Traffic traffic;
};

std::vector<Arrow> arrows_of(const Plan& plan, std::size_t phase) {
  std::map<std::pair<int, int>, Traffic> sums;
  for (const RankPlan& rank : plan.of_rank) {
    for (const Step& s : rank.steps) {
      if (s.kind == StepKind::send && s.phase == phase) sums[{rank.rank, s.peer}].add(s.bytes);
    }
  }
  std::vector<Arrow> arrows;
  for (const auto& [ends, traffic] : sums) arrows.push_back({ends.first, ends.second, traffic});
  return arrows;
}

class Picture {
 public:
  Picture(const Plan& plan, const Topology& topology, const Cost& cost)
      : plan_(plan),
        topology_(topology),
        cost_(cost),
        circle_(topology),
        traffic_(phase_traffic(plan, topology)) {
    for (std::size_t p = 0; p < traffic_.size(); ++p) {
      if (traffic_[p].sent.messages > 0) shown_.push_back(p);
      arrows_.push_back(arrows_of(plan, p));
      for (const Arrow& a : arrows_.back()) most_bytes_ = std::max(most_bytes_, a.traffic.bytes);
    }
    for (std::size_t l = 0; l < topology.levels.size(); ++l) {
      legend_.emplace_back();
      if (cost.level_messages[l] == 0) continue;
      legend_[l] = topology.levels[l].name + ": " + std::to_string(cost.level_messages[l]) + " messages, " +
                   bytes_words(cost.level_bytes[l]);
    }
    columns_ = std::min<std::size_t>(std::max<std::size_t>(shown_.size(), 1), 3);
  }

  std::string text() const {
    const std::size_t rows = (shown_.size() + columns_ - 1) / columns_;
    double legend = 20;
    for (const std::string& words : legend_) legend += words.empty() ? 0 : legend_width(words);
    const double width = std::max({static_cast<double>(columns_) * kPanel, kLeastWidth, legend});
    const double height = kTop + static_cast<double>(rows) * (kHigh + kHead) + 10;
    std::string svg = format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' width='%.0f' height='%.0f' "
        "font-family='DejaVu Sans, Helvetica, Arial, sans-serif' font-size='13'>\n",
        width, height, width, height);
    svg += format("<rect width='%.0f' height='%.0f' fill='white'/>\n", width, height) + markers() + title();
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      svg += panel(shown_[i], static_cast<double>(i % columns_) * kPanel,
                   kTop + static_cast<double>(i / columns_) * (kHigh + kHead));
    }
    return svg + "</svg>\n";
  }

 private:
  [[nodiscard]] std::string markers() const {
    std::string defs = "<defs>\n";
    for (std::size_t l = 0; l < topology_.levels.size(); ++l) {
      defs += format(
          "<marker id='head%zu' viewBox='0 0 10 10' refX='9' refY='5' markerUnits='userSpaceOnUse' "
          "markerWidth='9' "
          "markerHeight='9' orient='auto'><path d='M0 1L10 5L0 9z' fill='%s'/></marker>\n",
          l, colour_of(l));
    }
    return defs + "</defs>\n";
  }

  static double legend_width(const std::string& words) {
    return 52 + 7.6 * static_cast<double>(words.size());
  }

  [[nodiscard]] std::string title() const {
    std::string text = label(20, 30, "font-size='18' font-weight='bold'", plan_.choice);
    text += label(20, 52, "fill='#444'",
                  topology_.name + ", " + std::to_string(topology_.ranks) + " ranks, predicted " +
                      seconds_words(cost_.seconds) + ". Strong: messages of rank 0; width: bytes.");
    double x = 20;
    for (std::size_t l = 0; l < legend_.size(); ++l) {
      if (legend_[l].empty()) continue;
      text += format("<rect x='%.1f' y='65' width='22' height='6' rx='3' fill='%s'/>\n", x, colour_of(l));
      text += label(x + 28, 73, "", legend_[l]);
      x += legend_width(legend_[l]);
    }
    return text;
  }

  [[nodiscard]] std::string panel(std::size_t phase, double x, double y) const {
    const PhaseTraffic& t = traffic_[phase];
    const std::vector<Arrow>& arrows = arrows_[phase];
    const bool crowded = arrows.size() > kMostArrows;
    std::string caption = std::to_string(t.sent.messages) + " messages, " + bytes_words(t.sent.bytes) +
                          "; one rank sends up to " + std::to_string(t.busiest.messages) + ", " +
                          bytes_words(t.busiest.bytes);
    std::string svg = label(x + 20, y + 24, "font-size='16' font-weight='bold'",
                            std::to_string(phase + 1) + ". " + plan_.phases[phase].name);
    svg += label(x + 20, y + 44, "fill='#444'", caption);
    if (crowded) svg += label(x + 20, y + 61, "fill='#a33'", "too many to draw: only those of rank 0");
    svg +=
        format("<g transform='translate(%.1f %.1f)' fill='none'>\n", x + kPanel / 2, y + kHead + kHigh / 2);
    svg += nodes();
    const auto of_first = [&](const Arrow& a) { return a.from == circle_.order()[0]; };
    const Style strong = strong_style(std::count_if(arrows.begin(), arrows.end(), of_first));
    const Style faint = faint_style(arrows.size());
    for (const Arrow& a : arrows) {
      if (!of_first(a) && !crowded) svg += arrow(a, faint);
    }
    for (const Arrow& a : arrows) {
      if (of_first(a)) svg += arrow(a, strong);
    }
    return svg + ranks() + "</g>\n";
  }

  /// A sector behind the ranks of each node, and its name.
  [[nodiscard]] std::string nodes() const {
    std::string svg;
    const std::vector<int>& order = circle_.order();
    for (std::size_t first = 0; first < order.size();) {
      std::size_t last = first;
      while (last + 1 < order.size() && topology_.node_of(order[last + 1]) == topology_.node_of(order[first]))
        ++last;
      svg += sector(order[first], order[last]);
      first = last + 1;
    }
    return svg;
  }

  [[nodiscard]] std::string sector(int first, int last) const {
    const double margin = circle_.step() * 0.55;
    const double from = circle_.angle(first) - margin;
    double to = circle_.angle(last) + margin;
    if (topology_.nodes() == 1) to = from + 2 * std::numbers::pi - 0.001;
    const double inner = kRadius - circle_.dot() - 7;
    const double outer = kRadius + circle_.dot() + 7;
    const int large = to - from > std::numbers::pi ? 1 : 0;
    const auto at = [](double radius, double angle) {
      return Point{radius * std::cos(angle), radius * std::sin(angle)};
    };
    const Point a = at(outer, from), b = at(outer, to), c = at(inner, to), d = at(inner, from);
    std::string svg = format(
        "<path d='M%.1f %.1fA%.1f %.1f 0 %d 1 %.1f %.1fL%.1f %.1fA%.1f %.1f 0 %d 0 %.1f %.1fZ' "
        "fill='#eef1f5' "
        "stroke='#b8c0cc' stroke-width='1'/>\n",
        a.x, a.y, outer, outer, large, b.x, b.y, c.x, c.y, inner, inner, large, d.x, d.y);
    if (topology_.nodes() > 1 && topology_.nodes() <= 32) {
      const Point name = at(outer + 22, (from + to) / 2);
      svg += label(name.x, name.y + 4, "text-anchor='middle' fill='#667' font-size='12'",
                   (topology_.nodes() <= 16 ? "node " : "") + std::to_string(topology_.node_of(first)));
    }
    return svg;
  }

  struct Style {
    double least = 1, range = 3;  // width of an arrow without bytes, and how much more the largest has
    double opacity = 1;
    bool head = true;
  };

  static Style strong_style(std::ptrdiff_t count) {
    const double thin = std::min(1.0, 30.0 / static_cast<double>(std::max<std::ptrdiff_t>(count, 1)));
    return {1.0, 3.4 * thin, 0.95, true};
  }

  static Style faint_style(std::size_t count) {
    const double density = std::sqrt(static_cast<double>(std::max<std::size_t>(count, 1)));
    return {0.6, count > 300 ? 1.6 : 3.2, std::clamp(3.5 / density, 0.12, 0.45), count <= 60};
  }

  /// Bent to the centre, and a little to its right, so that both directions of a pair can be told apart.
  static Point bend_of(const Point& from, const Point& to) {
    const double length = std::max(1.0, std::hypot(to.x - from.x, to.y - from.y));
    const double apart = length / (2 * kRadius);
    const double pull = 0.62 - 0.5 * apart;
    const double side = (10 + 8 * apart) / length;
    return {(from.x + to.x) / 2 * pull - (to.y - from.y) * side,
            (from.y + to.y) / 2 * pull + (to.x - from.x) * side};
  }

  [[nodiscard]] std::string arrow(const Arrow& a, const Style& style) const {
    const auto level = static_cast<std::size_t>(topology_.level_of(a.from, a.to));
    const double reach = kRadius - circle_.dot() - 1;
    const Point from = circle_.at(a.from, reach);
    const Point to = circle_.at(a.to, reach);
    const Point bend = bend_of(from, to);
    const double share = static_cast<double>(a.traffic.bytes) / static_cast<double>(most_bytes_);
    std::string svg = format(
        "<path d='M%.1f %.1fQ%.1f %.1f %.1f %.1f' stroke='%s' stroke-width='%.2f' stroke-opacity='%.2f'",
        from.x, from.y, bend.x, bend.y, to.x, to.y, colour_of(level),
        style.least + style.range * std::sqrt(share), style.opacity);
    if (style.head) svg += format(" marker-end='url(#head%zu)'", level);
    return svg + format("><title>%d to %d: %zu messages, %s</title></path>\n", a.from, a.to,
                        a.traffic.messages, bytes_words(a.traffic.bytes).c_str());
  }

  [[nodiscard]] std::string ranks() const {
    const double dot = circle_.dot();
    std::string svg;
    for (const int rank : circle_.order()) {
      const Point p = circle_.at(rank, kRadius);
      const bool first = rank == circle_.order()[0];
      svg += format("<circle cx='%.1f' cy='%.1f' r='%.1f' fill='%s' stroke='#333' stroke-width='%.1f'/>\n",
                    p.x, p.y, dot, first ? "#ffe08a" : "white", dot > 4 ? 1.0 : 0.4);
      if (dot < 6) continue;
      svg += label(p.x, p.y + dot * 0.36,
                   format("text-anchor='middle' fill='#222' font-size='%.1f'", dot).c_str(),
                   std::to_string(rank));
    }
    return svg;
  }

  const Plan& plan_;
  const Topology& topology_;
  const Cost& cost_;
  Circle circle_;
  std::vector<PhaseTraffic> traffic_;
  std::vector<std::string> legend_;         // for each level, empty when it has no messages
  std::vector<std::vector<Arrow>> arrows_;  // for each phase
  std::vector<std::size_t> shown_;          // phases with messages
  std::size_t columns_ = 1;
  std::size_t most_bytes_ = 0;
};

}  // namespace

std::string explain_svg(const Plan& plan, const Topology& topology, const Cost& cost) {
  return Picture(plan, topology, cost).text();
}

}  // namespace tapa
