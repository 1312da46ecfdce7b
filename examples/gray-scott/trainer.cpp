#include "trainer.hpp"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "field_set.hpp"
#include "flat_weights.hpp"
#include "optimizer.hpp"
#include "training_clock.hpp"

namespace dit::gray_scott {
namespace {

/// Kept for the last step and for writing the weights.
constexpr double kReserveSeconds = 4.0;

std::string fixed(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.back() == '.' ? text + "0" : text;
}

/// Times of a batch, in (0, 1): most where the direction is hard to tell (logit-normal), some everywhere.
at::Tensor draw_times(std::int64_t count, at::Generator& generator, const at::TensorOptions& place) {
  const at::Tensor middle = at::sigmoid(at::randn({count}, generator, place));
  const at::Tensor anywhere = at::rand({count}, generator, place);
  return at::where(at::rand({count}, generator, place) < 0.2, anywhere, middle);
}

class Training {
 public:
  using Seconds = std::chrono::duration<double>;

  Training(const TrainOptions& options, const TrainProgress& progress)
      : options_(options),
        progress_(progress),
        device_(parse_device(options.device)),
        generator_(seeded_generator(device_, options.seed)),
        layout_(options.network),
        weights_(layout_.join(PixelDit::initial_weights(options.network, options.seed)).to(device_),
                 options.average) {
    report_.device = device_.str();
    report_.parameters = layout_.elements();
  }

  TrainReport run() {
    simulate();
    resume();
    TrainingClock clock(options_.steps, time_left(), begin_.progress, options_.until);
    at::Tensor summed = at::zeros({}, at::TensorOptions(at::kFloat).device(device_));
    std::int64_t summed_steps = 0;
    std::int64_t step = 0;
    for (; !clock.finished(step); ++step) {
      const double progress = clock.progress(step);
      const double rate = learning_rate(options_.learning_rate, progress, step, options_.warmup_steps);
      const at::Tensor loss = batch_loss(sets_[set_of(step, progress)]);
      loss.backward();
      weights_.step(rate, options_.clip);
      summed.add_(loss.detach());
      if (++summed_steps == options_.log_every || clock.finished(step + 1)) {
        record({begin_.step + step + 1, clock.progress(step + 1), clock.seconds(),
                summed.item<double>() / static_cast<double>(summed_steps), rate});
        summed.zero_();
        summed_steps = 0;
      }
    }
    report_.first_step = begin_.step;
    report_.steps = begin_.step + step;
    report_.training_seconds = clock.seconds();
    write(clock.progress(step));
    return std::move(report_);
  }

 private:
  [[nodiscard]] double elapsed() const { return Seconds(TrainingClock::Clock::now() - start_).count(); }

  [[nodiscard]] std::optional<Seconds> time_left() const {
    if (!options_.minutes) {
      return std::nullopt;
    }
    return Seconds(*options_.minutes * 60.0 - kReserveSeconds - elapsed());
  }

  /// Half of a run's minutes is the most that its data may take.
  void before_class(std::int64_t size, std::int64_t number) const {
    const GrayScottRegime& regime = options_.regimes[static_cast<std::size_t>(number)];
    if (options_.minutes && elapsed() > *options_.minutes * 30.0) {
      throw std::runtime_error(
          "minutes = " + fixed(*options_.minutes) + ": half of them are over and class " + regime.name +
          " of size " + std::to_string(size) +
          " is still to be simulated; expected more minutes, or fewer fields or simulation steps");
    }
    if (progress_.simulating) {
      progress_.simulating(size, regime);
    }
  }

  void simulate() {
    for (const TrainingSize& wanted : options_.sizes) {
      GrayScottOptions gray_scott;
      gray_scott.size = wanted.size;
      gray_scott.steps = options_.simulation_steps;
      gray_scott.seed = options_.seed;
      sets_.push_back(simulate_fields(options_.regimes, wanted.per_class, gray_scott, device_,
                                      [&](std::int64_t number) { before_class(wanted.size, number); }));
    }
    ModelConfig& config = report_.config;
    config.network = pixel_dit_network(options_.network);
    config.channels = measure_scales(sets_.front());
    for (const GrayScottRegime& regime : options_.regimes) {
      config.class_names.push_back(regime.name);
    }
    for (FieldSet& set : sets_) {
      set.fields = to_model_units(set.fields, config.channels);
      config.trained_sizes.push_back(set.size());
    }
    report_.simulation_seconds = elapsed();
  }

  void resume() {
    if (!options_.state.empty() && std::filesystem::exists(options_.state)) {
      begin_ = weights_.load(options_.state);
      if (begin_.progress >= options_.until) {
        throw std::invalid_argument("until = " + fixed(options_.until) + ": expected more than what " +
                                    options_.state.string() + " has reached, " + fixed(begin_.progress));
      }
      // Other batches than those of the first run.
      generator_ = seeded_generator(
          device_, options_.seed + 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(begin_.step));
    }
  }

  /// The first size alone, later all in turns.
  [[nodiscard]] std::size_t set_of(std::int64_t step, double progress) const {
    return progress < options_.mixed_from ? 0 : static_cast<std::size_t>(step) % sets_.size();
  }

  [[nodiscard]] std::int64_t batch_of(const FieldSet& set) const {
    const std::int64_t first = sets_.front().size();
    return std::max<std::int64_t>(1, options_.batch * first * first / (set.size() * set.size()));
  }

  at::Tensor batch_loss(const FieldSet& set) {
    const std::int64_t count = batch_of(set);
    const FieldBatch batch = draw_batch(set, count, generator_);
    const at::Tensor labels =
        drop_labels(batch.labels, options_.drop_labels, options_.network.classes, generator_);
    const at::Tensor times = draw_times(count, generator_, batch.fields.options());
    const at::Tensor noise = at::randn(batch.fields.sizes(), generator_, batch.fields.options());
    const at::Tensor direction = noise - batch.fields;
    const at::Tensor mixed = batch.fields + times.reshape({-1, 1, 1, 1}) * direction;
    const PixelDit model(options_.network, layout_.split(weights_.flat().to(dtype())));
    const at::Tensor answer = model.forward(mixed.to(dtype()), times, labels);
    return (answer.to(at::kFloat) - direction).square().mean();
  }

  [[nodiscard]] at::ScalarType dtype() const {
    return options_.bf16 && !device_.is_cpu() ? at::kBFloat16 : at::kFloat;
  }

  void record(const LossPoint& point) {
    if (!std::isfinite(point.loss)) {
      throw std::runtime_error("the loss is no number at step " + std::to_string(point.step) +
                               ": expected a lower learning rate than " + fixed(options_.learning_rate));
    }
    report_.log.push_back(point);
    report_.final_loss = point.loss;
    if (progress_.trained) {
      progress_.trained(point);
    }
  }

  void write(double reached) const {
    const at::Tensor kept = weights_.average().to(at::kCPU).to(at::kBFloat16);
    save_model(options_.output, report_.config, layout_.split(kept), metadata());
    if (!options_.state.empty()) {
      weights_.save(options_.state, {report_.steps, reached});
    }
  }

  [[nodiscard]] std::map<std::string, std::string> metadata() const {
    std::string data = "Gray-Scott, " + std::to_string(options_.simulation_steps) + " steps";
    for (const TrainingSize& size : options_.sizes) {
      data += ", " + std::to_string(options_.regimes.size()) + " x " + std::to_string(size.per_class) +
              " fields of " + std::to_string(size.size) + "x" + std::to_string(size.size);
    }
    return {{"format", "pt"},
            {"data", data},
            {"seed", std::to_string(options_.seed)},
            {"steps", std::to_string(report_.steps)},
            {"batch", std::to_string(options_.batch)},
            {"loss", fixed(report_.final_loss)}};
  }

  TrainingClock::Clock::time_point start_ = TrainingClock::Clock::now();
  const TrainOptions& options_;
  const TrainProgress& progress_;
  at::Device device_;
  at::Generator generator_;
  FlatLayout layout_;
  TrainedWeights weights_;
  std::vector<FieldSet> sets_;  ///< as options_.sizes
  SchedulePoint begin_;
  TrainReport report_;
};

}  // namespace

TrainReport train(const TrainOptions& options, const TrainProgress& progress) {
  check(options);
  return Training(options, progress).run();
}

}  // namespace dit::gray_scott
