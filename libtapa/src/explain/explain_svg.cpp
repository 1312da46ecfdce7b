#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <utility>

#include "explain/explain.hpp"
#include "explain/explain_format.hpp"
#include "explain/explain_shared.hpp"

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

/// All that one rank gives to another in a panel.
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

/// One circle of ranks with its arrows.
struct Panel {
  std::string title;
  std::string caption;
  std::vector<Arrow> arrows;
};

/// What is drawn, in words and arrows.
struct Drawing {
  std::string title;
  std::string line;                 // below the title
  std::string unit;                 // what an arrow stands for: "messages"
  bool dashed = false;              // arrows that are no messages
  std::vector<std::string> legend;  // for each level, empty when nothing goes over it
  std::vector<Panel> panels;
};

std::string amount(const Traffic& traffic, const std::string& unit) {
  return std::to_string(traffic.messages) + " " + unit + ", " + bytes_words(traffic.bytes);
}

class Picture {
 public:
  Picture(const Drawing& drawing, const Topology& topology)
      : drawing_(drawing), topology_(topology), circle_(topology) {
    for (const Panel& panel : drawing.panels) {
      for (const Arrow& a : panel.arrows) most_bytes_ = std::max(most_bytes_, a.traffic.bytes);
    }
    columns_ = std::min<std::size_t>(std::max<std::size_t>(drawing.panels.size(), 1), 3);
  }

  std::string text() const {
    const std::size_t rows = (drawing_.panels.size() + columns_ - 1) / columns_;
    double legend = 20;
    for (const std::string& words : drawing_.legend) legend += words.empty() ? 0 : legend_width(words);
    const double width = std::max({static_cast<double>(columns_) * kPanel, kLeastWidth, legend});
    const double height = kTop + static_cast<double>(rows) * (kHigh + kHead) + 10;
    std::string svg = format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' width='%.0f' height='%.0f' "
        "font-family='DejaVu Sans, Helvetica, Arial, sans-serif' font-size='13'>\n",
        width, height, width, height);
    svg += format("<rect width='%.0f' height='%.0f' fill='white'/>\n", width, height) + markers() + title();
    for (std::size_t i = 0; i < drawing_.panels.size(); ++i) {
      const std::size_t row = i / columns_;
      svg += panel(drawing_.panels[i], static_cast<double>(i % columns_) * kPanel,
                   kTop + static_cast<double>(row) * (kHigh + kHead));
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
    std::string text = label(20, 30, "font-size='18' font-weight='bold'", drawing_.title);
    text += label(20, 52, "fill='#444'", drawing_.line);
    double x = 20;
    for (std::size_t l = 0; l < drawing_.legend.size(); ++l) {
      if (drawing_.legend[l].empty()) continue;
      text += format("<rect x='%.1f' y='65' width='22' height='6' rx='3' fill='%s'/>\n", x, colour_of(l));
      text += label(x + 28, 73, "", drawing_.legend[l]);
      x += legend_width(drawing_.legend[l]);
    }
    return text;
  }

  [[nodiscard]] std::string panel(const Panel& panel, double x, double y) const {
    const std::vector<Arrow>& arrows = panel.arrows;
    const bool crowded = arrows.size() > kMostArrows;
    std::string svg = label(x + 20, y + 24, "font-size='16' font-weight='bold'", panel.title);
    svg += label(x + 20, y + 44, "fill='#444'", panel.caption);
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
    if (drawing_.dashed) svg += " stroke-dasharray='5 4'";
    if (style.head) svg += format(" marker-end='url(#head%zu)'", level);
    return svg + format("><title>%d to %d: ", a.from, a.to) + amount(a.traffic, drawing_.unit) +
           "</title></path>\n";
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

  const Drawing& drawing_;
  const Topology& topology_;
  Circle circle_;
  std::size_t columns_ = 1;
  std::size_t most_bytes_ = 0;
};

std::string machine_line(const Topology& topology, double seconds) {
  return topology.name + ", " + std::to_string(topology.ranks) + " ranks, predicted " +
         seconds_words(seconds);
}

std::vector<std::string> legend_of(const Topology& topology, const std::vector<Traffic>& levels,
                                   const std::string& unit) {
  std::vector<std::string> legend(levels.size());
  for (std::size_t l = 0; l < levels.size(); ++l) {
    if (levels[l].messages > 0) legend[l] = topology.levels[l].name + ": " + amount(levels[l], unit);
  }
  return legend;
}

}  // namespace

std::string explain_svg(const Plan& plan, const Topology& topology, const Cost& cost) {
  Drawing drawing{
      plan.choice, machine_line(topology, cost.seconds) + ". Strong: messages of rank 0; width: bytes.",
      "messages",  false,
      {},          {}};
  std::vector<Traffic> levels;
  for (std::size_t l = 0; l < topology.levels.size(); ++l)
    levels.push_back({cost.level_messages[l], cost.level_bytes[l]});
  drawing.legend = legend_of(topology, levels, drawing.unit);
  const std::vector<PhaseTraffic> traffic = phase_traffic(plan, topology);
  for (std::size_t p = 0; p < traffic.size(); ++p) {
    if (traffic[p].sent.messages == 0) continue;
    drawing.panels.push_back({std::to_string(p + 1) + ". " + plan.phases[p].name,
                              amount(traffic[p].sent, drawing.unit) + "; one rank sends up to " +
                                  std::to_string(traffic[p].busiest.messages) + ", " +
                                  bytes_words(traffic[p].busiest.bytes),
                              arrows_of(plan, p)});
  }
  return Picture(drawing, topology).text();
}

std::string explain_shared_svg(const Counts& counts, const Topology& topology, double seconds) {
  const SharedTraffic traffic = shared_traffic(counts, topology);
  Drawing drawing{"memory",
                  machine_line(topology, seconds) + ". No messages; strong: blocks of rank 0; width: bytes.",
                  "blocks",
                  true,
                  legend_of(topology, traffic.levels, "blocks"),
                  {}};
  Panel panel{"shared memory",
              amount(traffic.read, drawing.unit) + "; one rank copies up to " +
                  std::to_string(traffic.busiest.messages) + ", " + bytes_words(traffic.busiest.bytes),
              {}};
  for (int from = 0; from < topology.ranks; ++from) {
    for (int to = 0; to < topology.ranks; ++to) {
      if (from != to && counts.bytes(from, to) > 0)
        panel.arrows.push_back({from, to, {1, counts.bytes(from, to)}});
    }
  }
  if (!panel.arrows.empty()) drawing.panels.push_back(std::move(panel));
  return Picture(drawing, topology).text();
}

}  // namespace tapa
