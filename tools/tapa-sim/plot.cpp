#include <algorithm>
#include <cmath>
#include <sstream>

#include "report.hpp"

namespace tapa::sim_tool {

namespace {

constexpr double kLeft = 70, kTop = 50, kWidth = 560, kHeight = 360, kKey = 150;
constexpr const char* kColours[] = {"#8c564b", "#9467bd", "#2ca02c", "#17becf",
                                    "#7f7f7f", "#bcbd22", "#e377c2"};

struct Line {
  std::string name;
  std::string colour;
  double width = 1.5;
  std::vector<std::pair<double, double>> points;  // log2 bytes, log10 us
};

std::vector<Line> lines_of(const Report& report) {
  Line choice{"libtapa's choice", "#d9822b", 3, {}};
  Line best{"best plan", "#3b6ea5", 1.5, {}};
  std::map<std::string, Line> rivals;
  for (const Row& row : report.rows) {
    const double x = std::log2(static_cast<double>(row.bytes));
    if (row.plans.contains(row.choice)) choice.points.emplace_back(x, std::log10(row.plans.at(row.choice)));
    if (row.plans.contains(row.best)) best.points.emplace_back(x, std::log10(row.plans.at(row.best)));
    for (const auto& [name, time] : row.rivals) rivals[name].points.emplace_back(x, std::log10(time));
  }
  std::vector<Line> lines;
  for (auto& [name, line] : rivals) {
    line.name = name;
    line.colour = kColours[lines.size() % std::size(kColours)];
    lines.push_back(line);
  }
  lines.push_back(choice);
  lines.push_back(best);
  return lines;
}

/// Where values lie on the page.
struct Frame {
  double x0 = 1e300, x1 = -1e300, y0 = 1e300, y1 = -1e300;
  explicit Frame(const std::vector<Line>& lines) {
    for (const Line& line : lines) {
      for (const auto& [x, y] : line.points) {
        x0 = std::min(x0, x), x1 = std::max(x1, x);
        y0 = std::min(y0, std::floor(y)), y1 = std::max(y1, std::ceil(y));
      }
    }
    if (x1 <= x0) x1 = x0 + 1;
    if (y1 <= y0) y1 = y0 + 1;
  }
  [[nodiscard]] double x(double value) const { return kLeft + (value - x0) / (x1 - x0) * kWidth; }
  [[nodiscard]] double y(double value) const { return kTop + kHeight - (value - y0) / (y1 - y0) * kHeight; }
};

void text(std::ostream& out, double x, double y, const std::string& words, const char* more) {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" " << more << ">" << words << "</text>\n";
}

std::string size_words(double bytes) {
  const char* const units[] = {"", "K", "M", "G"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
  return std::to_string(static_cast<long>(bytes)) + units[unit];
}

void axes(std::ostream& out, const Frame& frame, const Report& report) {
  const int decades = static_cast<int>(frame.y1 - frame.y0);
  for (int i = 0; i <= decades; ++i) {
    const double decade = frame.y0 + i;
    const double y = frame.y(decade);
    out << "<line x1=\"" << kLeft << "\" x2=\"" << kLeft + kWidth << "\" y1=\"" << y << "\" y2=\"" << y
        << "\" stroke=\"#ddd\"/>\n";
    std::ostringstream label;
    label << std::pow(10, decade);
    text(out, kLeft - 8, y + 4, label.str() + " us", "text-anchor=\"end\" fill=\"#666\"");
  }
  for (const Row& row : report.rows) {
    const auto bytes = static_cast<double>(row.bytes);
    text(out, frame.x(std::log2(bytes)), kTop + kHeight + 18, size_words(bytes),
         "text-anchor=\"middle\" fill=\"#666\"");
  }
  text(out, kLeft + kWidth / 2, kTop + kHeight + 38, "bytes for each pair", "text-anchor=\"middle\"");
}

}  // namespace

std::string report_svg(const Report& report) {
  const std::vector<Line> lines = lines_of(report);
  const Frame frame(lines);
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kLeft + kWidth + kKey << "\" height=\""
      << kTop + kHeight + 56
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n";
  text(out, kLeft, 28, report.machine + ", " + std::to_string(report.ranks) + " simulated ranks",
       "font-size=\"15\"");
  axes(out, frame, report);
  double key = kTop + 12;
  for (const Line& line : lines) {
    out << "<polyline fill=\"none\" stroke=\"" << line.colour << "\" stroke-width=\"" << line.width
        << "\" points=\"";
    for (const auto& [x, y] : line.points) out << frame.x(x) << "," << frame.y(y) << " ";
    out << "\"/>\n<rect x=\"" << kLeft + kWidth + 12 << "\" y=\"" << key - 9
        << "\" width=\"14\" height=\"4\" fill=\"" << line.colour << "\"/>\n";
    text(out, kLeft + kWidth + 32, key, line.name, "");
    key += 18;
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace tapa::sim_tool
