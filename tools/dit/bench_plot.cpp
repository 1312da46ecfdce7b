#include <algorithm>
#include <sstream>

#include "bench_rows.hpp"
#include "quantity.hpp"

namespace dit::tool {

namespace {

constexpr double bar_width = 76;
constexpr double bar_gap = 34;
constexpr double left = 64;
constexpr double top = 64;
constexpr double height = 260;
constexpr const char* compute_colour = "#3b6ea5";
constexpr const char* exposed_colour = "#d9822b";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return result;
}

void text(std::ostream& out, double x, double y, const std::string& words, const std::string& more = "") {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" " << more << ">" << escaped(words) << "</text>\n";
}

void box(std::ostream& out, double x, double y, double width, double tall, const char* colour) {
  out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << tall
      << "\" fill=\"" << colour << "\"/>\n";
}

/// Lines across at round numbers, at most six.
void grid_lines(std::ostream& out, double most, double scale, double width) {
  double step = 1e-3;
  for (const double factor : {1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5}) {
    for (const double lead : {1.0, 2.0, 5.0}) {
      if (most / step > 6) step = factor * lead;
    }
  }
  for (double value = 0; value <= most; value += step) {
    const double y = top + height - value * scale;
    out << "<line x1=\"" << left << "\" x2=\"" << left + width << "\" y1=\"" << y << "\" y2=\"" << y
        << "\" stroke=\"#ddd\"/>\n";
    text(out, left - 8, y + 4, figure(value), "text-anchor=\"end\" fill=\"#666\"");
  }
}

void bar(std::ostream& out, const BenchResult& result, double x, double scale) {
  const double floor = top + height;
  const double compute = result.compute_ms * scale;
  const double exposed = result.exposed_ms * scale;
  const double middle = x + bar_width / 2;
  const std::string centred = "text-anchor=\"middle\"";
  box(out, x, floor - compute, bar_width, compute, compute_colour);
  box(out, x, floor - compute - exposed, bar_width, exposed, exposed_colour);
  text(out, middle, floor - compute - exposed - 20, figure(result.step_ms) + " ms",
       centred + " font-weight=\"bold\"");
  if (result.ratio_to_flat > 0) {
    text(out, middle, floor - compute - exposed - 6, "x " + figure(result.ratio_to_flat),
         centred + " fill=\"#444\"");
  }
  text(out, middle, floor + 18, result.row.name, centred);
  text(out, middle, floor + 33, result.row.plugin, centred + " fill=\"#666\"");
  if (!result.row.policy.exact() && !result.quality.empty()) {
    text(out, middle, floor + 48, figure(median_psnr(result)) + " dB", centred + " fill=\"#666\"");
  }
}

}  // namespace

std::string bench_svg(const std::vector<BenchResult>& results, const std::string& title) {
  double most = 1e-3;
  for (const BenchResult& result : results) most = std::max(most, result.compute_ms + result.exposed_ms);
  const double scale = (height - 40) / most;
  const double width = static_cast<double>(results.size()) * (bar_width + bar_gap) + bar_gap;
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << left + width + 20 << "\" height=\""
      << top + height + 84
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n";
  text(out, left, 24, title, "font-size=\"15\"");
  box(out, left, 36, 11, 11, compute_colour);
  text(out, left + 16, 46, "computing");
  box(out, left + 96, 36, 11, 11, exposed_colour);
  text(out, left + 112, 46, "exposed exchange, ms a step");
  grid_lines(out, most, scale, width);
  for (std::size_t i = 0; i < results.size(); ++i) {
    bar(out, results[i], left + bar_gap + static_cast<double>(i) * (bar_width + bar_gap), scale);
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace dit::tool
