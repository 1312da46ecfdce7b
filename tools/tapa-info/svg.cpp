#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "info.hpp"

namespace tapa::info {

namespace {

constexpr double cell_width = 74;
constexpr double cell_height = 34;
constexpr double gap = 8;
constexpr double title = 18;
constexpr double nic_height = 30;
constexpr double rail_space = 34;  // between ranks and NICs

/// A group of ranks (or one rank, without children) with its place relative to its parent.
struct Box {
  std::string label;
  int rank = -1;
  int depth = 0;
  double x = 0, y = 0, width = 0, height = 0;
  std::vector<Box> children;
};

/// Colours that are told apart by people with any colour vision (Okabe and Ito), repeated when there are more
/// NICs.
const std::string& nic_colour(std::size_t index) {
  static const std::array<std::string, 8> colours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                     "#56b4e9", "#d55e00", "#f0e442", "#999999"};
  return colours[index % colours.size()];
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Text that fits `width` at 10 px, about 6 px a letter.
std::string fitting(const std::string& text, double width) {
  const auto letters = static_cast<std::size_t>(std::max(1.0, width / 6));
  return text.size() <= letters ? text : text.substr(0, letters - 1) + "~";
}

/// Places children in rows, about as wide as high, and sets the size.
void arrange(Box& box, std::size_t columns) {
  double x = gap, y = title, row_height = 0;
  for (std::size_t c = 0; c < box.children.size(); ++c) {
    if (c != 0 && c % columns == 0) {
      x = gap;
      y += row_height + gap;
      row_height = 0;
    }
    Box& child = box.children[c];
    child.x = x;
    child.y = y;
    x += child.width + gap;
    row_height = std::max(row_height, child.height);
    box.width = std::max(box.width, x);
  }
  box.height = y + row_height + gap;
}

/// The group of `ranks` at `level`, with its inner groups in rows that fill at least `width`.
Box make_box(const Topology& topology, int level, const std::vector<int>& ranks, const std::string& label,
             double width = 0) {
  Box box;
  box.label = label;
  box.depth = level + 1;
  std::map<int, std::vector<int>> groups;  // of the next faster level; by number, which is by first rank
  for (int r : ranks) {
    const int key =
        level <= 0 ? r
                   : topology.levels[static_cast<std::size_t>(level) - 1].group[static_cast<std::size_t>(r)];
    groups[key].push_back(r);
  }
  for (const auto& [number, members] : groups) {
    if (level <= 0) {
      Box cell;
      cell.rank = number;
      cell.width = cell_width;
      cell.height = cell_height;
      box.children.push_back(std::move(cell));
    } else {
      const Level& faster = topology.levels[static_cast<std::size_t>(level) - 1];
      box.children.push_back(
          make_box(topology, level - 1, members, faster.name + " " + std::to_string(number)));
    }
  }
  const auto count = static_cast<double>(box.children.size());
  const double square = level <= 0 ? 8 : std::ceil(std::sqrt(count * 1.5));
  const double fill = std::floor(width / (box.children[0].width + gap));
  arrange(box, static_cast<std::size_t>(std::max(1.0, std::min(std::max(square, fill), count))));
  return box;
}

struct Point {
  double x, y;
};

class Picture {
 public:
  Picture(const Topology& topology, const std::vector<Record>& records)
      : topology_(topology), records_(records) {}

  /// Draws node `node` with its left upper corner at (x, y); returns its size.
  Point node(int node, const std::vector<int>& ranks, double x, double y) {
    const int level = topology_.nic_level - 1;
    std::vector<std::size_t> nics;
    for (std::size_t n = 0; n < topology_.nics.size(); ++n) {
      if (topology_.nics[n].node == node) nics.push_back(n);
    }
    const double nic_width = 96;
    const double nics_width = gap + static_cast<double>(nics.size()) * (nic_width + gap);
    Box box = make_box(topology_, level, ranks, node_name(topology_, records_, node), nics_width);
    box.width = std::max(box.width, nics_width);
    const double nic_y = y + box.height + rail_space;
    if (!nics.empty()) box.height += rail_space + nic_height + gap;
    draw(box, x, y);
    std::map<std::size_t, Point> at;
    for (std::size_t i = 0; i < nics.size(); ++i) {
      const double nic_x = x + gap + static_cast<double>(i) * (nic_width + gap);
      draw_nic(topology_.nics[nics[i]], i, nic_x, nic_y, nic_width);
      at[nics[i]] = {nic_x + nic_width / 2, nic_y};
      colour_[nics[i]] = nic_colour(i);
    }
    for (int r : ranks) draw_rails(r, at);
    return {box.width, box.height};
  }

  [[nodiscard]] std::string text() const { return boxes_.str() + rails_.str() + cells_.str(); }

 private:
  void draw(const Box& box, double x, double y) {
    static const std::array<const char*, 5> fills = {"#ffffff", "#eef3f8", "#dde7f0", "#ccdbe8", "#bccfe0"};
    if (box.rank >= 0) {
      place_[box.rank] = {x, y};
      return;
    }
    boxes_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << box.width << "\" height=\""
           << box.height << "\" rx=\"4\" fill=\"" << fills[static_cast<std::size_t>(std::min(box.depth, 4))]
           << "\" stroke=\"#5b7083\"/>\n<text x=\"" << x + gap << "\" y=\"" << y + 13 << "\" class=\"label\">"
           << escaped(fitting(box.label, box.width - 2 * gap)) << "</text>\n";
    for (const Box& child : box.children) draw(child, x + child.x, y + child.y);
  }

  void draw_nic(const Nic& nic, std::size_t index, double x, double y, double width) {
    cells_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << nic_height
           << "\" rx=\"3\" fill=\"" << nic_colour(index) << "\" stroke=\"#333\"/>\n<rect x=\"" << x + 3
           << "\" y=\"" << y + 3 << "\" width=\"" << width - 6 << "\" height=\"" << nic_height - 6
           << "\" rx=\"2\" fill=\"#fff\"/>\n<text x=\"" << x + width / 2 << "\" y=\"" << y + 13
           << "\" class=\"cell\">" << escaped(fitting(nic.name, width - 8)) << "</text>\n<text x=\""
           << x + width / 2 << "\" y=\"" << y + 24 << "\" class=\"small\">"
           << escaped(nic.bandwidth ? rate_text(nic.bandwidth).substr(0, rate_text(nic.bandwidth).find(" ("))
                                    : "rate unknown")
           << "</text>\n";
  }

  void draw_rails(int rank, const std::map<std::size_t, Point>& at) {
    const Point cell = place_.at(rank);
    const auto r = static_cast<std::size_t>(rank);
    std::string colour = "#d0d0d0";
    for (int nic : topology_.rails.empty() ? std::vector<int>{} : topology_.rails[r]) {
      const auto n = static_cast<std::size_t>(nic);
      colour = colour_.at(n);
      rails_ << "<line x1=\"" << cell.x + cell_width / 2 << "\" y1=\"" << cell.y + cell_height << "\" x2=\""
             << at.at(n).x << "\" y2=\"" << at.at(n).y << "\" stroke=\"" << colour
             << "\" stroke-opacity=\"0.55\" stroke-width=\"1.5\"/>\n";
    }
    cells_ << "<rect x=\"" << cell.x << "\" y=\"" << cell.y << "\" width=\"" << cell_width << "\" height=\""
           << cell_height << "\" rx=\"3\" fill=\"#fff\" stroke=\"#5b7083\"/>\n<rect x=\"" << cell.x
           << "\" y=\"" << cell.y << "\" width=\"6\" height=\"" << cell_height << "\" fill=\"" << colour
           << "\"/>\n<text x=\"" << cell.x + cell_width / 2 + 3 << "\" y=\"" << cell.y + 14
           << "\" class=\"cell\">rank " << rank << "</text>\n";
    if (!topology_.devices.empty()) {
      cells_ << "<text x=\"" << cell.x + cell_width / 2 + 3 << "\" y=\"" << cell.y + 27
             << "\" class=\"small\">" << escaped(fitting(topology_.devices[r].name, cell_width + 10))
             << "</text>\n";
    }
  }

  const Topology& topology_;
  const std::vector<Record>& records_;
  std::map<int, Point> place_;                 // left upper corner of each rank's cell
  std::map<std::size_t, std::string> colour_;  // of each NIC
  std::ostringstream boxes_, rails_, cells_;   // drawn in this order, so that lines stay below cells
};

}  // namespace

std::string as_svg(const Topology& topology, const std::vector<Record>& records, int nodes_shown) {
  Picture picture(topology, records);
  const std::vector<std::vector<int>> nodes = ranks_of_nodes(topology);
  const int shown = std::min(nodes_shown, topology.nodes());
  const auto columns = static_cast<int>(std::ceil(std::sqrt(shown)));
  double x = gap, y = 44, width = 420, row_height = 0;
  for (int n = 0; n < shown; ++n) {
    if (n != 0 && n % columns == 0) {
      x = gap;
      y += row_height + 2 * gap;
      row_height = 0;
    }
    const Point size = picture.node(n, nodes[static_cast<std::size_t>(n)], x, y);
    x += size.x + 2 * gap;
    row_height = std::max(row_height, size.y);
    width = std::max(width, x);
  }
  std::ostringstream out;
  const double height = y + row_height + 28;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" viewBox=\"0 0 " << width << " " << height
      << "\" font-family=\"sans-serif\">\n<style>.label{font-size:11px;fill:#22313f}"
      << ".cell{font-size:11px;text-anchor:middle}.small{font-size:9px;text-anchor:middle;fill:#444}</"
         "style>\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"" << gap
      << "\" y=\"20\" font-size=\"15\">" << escaped(topology.name) << ": " << topology.ranks << " ranks, "
      << topology.nodes() << " nodes</text>\n<text x=\"" << gap << "\" y=\"36\" class=\"label\">levels:";
  for (const Level& level : topology.levels) {
    out << " " << escaped(level.name)
        << (level.link.bandwidth
                ? " " + rate_text(level.link.bandwidth).substr(0, rate_text(level.link.bandwidth).find(" ("))
                : "");
    if (&level != &topology.levels.back()) out << ",";
  }
  out << "</text>\n" << picture.text();
  if (shown < topology.nodes()) {
    out << "<text x=\"" << gap << "\" y=\"" << height - 10 << "\" class=\"label\">and "
        << topology.nodes() - shown << " nodes more</text>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace tapa::info
