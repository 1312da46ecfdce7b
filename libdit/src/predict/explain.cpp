#include "predict/explain.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace dit {
namespace {

constexpr char kWaiting = '-';

char letter_of(StepRole role) {
  switch (role) {
    case StepRole::prepare:
      return 'P';
    case StepRole::value:
      return 'V';
    case StepRole::query:
      return 'Q';
    case StepRole::key:
      return 'K';
    case StepRole::score:
      return 'S';
    case StepRole::attention:
      return 'A';
    case StepRole::finish:
      return 'F';
    case StepRole::mlp:
    case StepRole::mlp_in:
    case StepRole::mlp_out:
      return 'M';
    case StepRole::last:
      return 'L';
    case StepRole::scatter_value:
      return 'v';
    case StepRole::scatter_query:
      return 'q';
    case StepRole::scatter_key:
      return 'k';
    case StepRole::gather_output:
      return 'o';
  }
  return '?';
}

std::string time_text(double seconds) {
  const double shown = seconds < 1e-3 ? seconds * 1e6 : seconds < 1 ? seconds * 1e3 : seconds;
  const char* unit = seconds < 1e-3 ? "us" : seconds < 1 ? "ms" : "s";
  char text[40];
  std::snprintf(text, sizeof text, "%.3g %s", shown, unit);
  return text;
}

/// One line of the picture. A column shows what fills more than half of it, or what has its middle there:
/// short steps are seen as well.
class TimeLine {
 public:
  TimeLine(int columns, double column_seconds)
      : text_(static_cast<std::size_t>(columns), ' '),
        filled_(text_.size(), 0),
        column_seconds_(column_seconds) {}

  void draw(char letter, double begin, double end) {
    const auto middle = static_cast<std::size_t>((begin + end) / 2 / column_seconds_);
    for (auto column = static_cast<std::size_t>(begin / column_seconds_); column < text_.size(); ++column) {
      const double left = std::max(begin, static_cast<double>(column) * column_seconds_);
      const double right = std::min(end, static_cast<double>(column + 1) * column_seconds_);
      if (left >= right) return;
      const bool shown = column == middle || right - left > column_seconds_ / 2;
      if (!shown || right - left <= filled_[column]) continue;
      filled_[column] = right - left;
      text_[column] = letter;
    }
  }

  [[nodiscard]] std::string text() const { return text_.substr(0, text_.find_last_not_of(' ') + 1); }

 private:
  std::string text_;
  std::vector<double> filled_;
  double column_seconds_;
};

void check(const ExplainOptions& options) {
  if (options.layers < 1) {
    throw std::invalid_argument("layers to explain: " + std::to_string(options.layers) +
                                ", expected at least 1");
  }
  if (options.columns < 10) {
    throw std::invalid_argument("columns to explain in: " + std::to_string(options.columns) +
                                ", expected at least 10");
  }
}

/// When the first `layers` layers are through.
double end_of_layers(const StepGraph& graph, const std::vector<ReplaySpan>& spans, int layers) {
  double end = 0;
  for (const ReplaySpan& span : spans) {
    const Step& step = graph.steps[static_cast<std::size_t>(span.action.step)];
    const bool within = step.layer < layers && (step.role != StepRole::last || layers == graph.layers);
    if (within) end = std::max(end, std::max(span.end, span.link_end));
  }
  return end;
}

struct Lanes {
  std::vector<TimeLine> compute;   ///< per unit; waiting is drawn for the unit that is waited for
  std::vector<TimeLine> exchange;  ///< per unit
};

Lanes draw(const StepGraph& graph, const std::vector<ReplaySpan>& spans, int columns, double column_seconds) {
  const std::vector<TimeLine> empty(static_cast<std::size_t>(graph.units), TimeLine(columns, column_seconds));
  Lanes lanes{empty, empty};
  for (const ReplaySpan& span : spans) {
    const Step& step = graph.steps[static_cast<std::size_t>(span.action.step)];
    const auto unit = static_cast<std::size_t>(step.unit);
    const bool computes = span.action.kind == Action::Kind::compute;
    lanes.compute[unit].draw(computes ? letter_of(step.role) : kWaiting, span.begin, span.end);
    lanes.exchange[unit].draw(letter_of(step.role), span.link_begin, span.link_end);
  }
  return lanes;
}

std::string legend(const StepGraph& graph) {
  std::string text;
  for (int role = 0; role <= static_cast<int>(StepRole::last); ++role) {
    const auto drawn = static_cast<StepRole>(role);
    const bool used = std::any_of(graph.steps.begin(), graph.steps.end(),
                                  [&](const Step& step) { return step.role == drawn; });
    if (used) text += std::string(1, letter_of(drawn)) + " " + to_string(drawn) + ", ";
  }
  return text + std::string(1, kWaiting) + " waiting\n";
}

std::string totals(const Prediction& prediction) {
  std::string text = "predicted: " + time_text(prediction.seconds) + ", of which " +
                     time_text(prediction.compute_seconds) + " computing and " +
                     time_text(prediction.exposed_seconds) + " waiting; exchanges take " +
                     time_text(prediction.exchange_seconds);
  if (prediction.exchange_seconds > 0) {
    const double hidden = 1 - prediction.exposed_seconds / prediction.exchange_seconds;
    text += ", " + std::to_string(std::lround(hidden * 100)) + " % of it hidden";
  }
  return text + "\n";
}

}  // namespace

std::string explain(const StepGraph& graph, const Order& order, const ExplainOptions& options) {
  check(options);
  StepGraph drawn = graph;
  const bool estimated =
      std::any_of(graph.steps.begin(), graph.steps.end(), [](const Step& step) { return step.seconds > 0; });
  if (!estimated) {
    for (Step& step : drawn.steps) step.seconds = 1;
  }
  const std::vector<ReplaySpan> spans = replay(drawn, order, options.predict);
  const int layers = std::min(options.layers, graph.layers);
  const double end = end_of_layers(drawn, spans, layers);
  const double column_seconds = end > 0 ? end / options.columns : 1;
  const Prediction prediction = predict(drawn, order, options.predict);

  std::string text = "first " + std::to_string(layers) + " of " + std::to_string(graph.layers) + " layers";
  if (estimated) {
    text += ": " + time_text(end) + " of " + time_text(prediction.seconds) + ", a column is " +
            time_text(column_seconds) + "\n";
  } else {
    text += ", without estimates: all steps drawn equally long\n";
  }
  const Lanes lanes = draw(drawn, spans, options.columns, column_seconds);
  for (std::size_t unit = 0; unit < lanes.compute.size(); ++unit) {
    const std::string name = lanes.compute.size() > 1 ? "unit " + std::to_string(unit) + " " : "";
    text += name + "compute   " + lanes.compute[unit].text() + "\n";
    text += name + "exchange  " + lanes.exchange[unit].text() + "\n";
  }
  text += legend(graph);
  if (estimated) text += totals(prediction);
  return text;
}

}  // namespace dit
