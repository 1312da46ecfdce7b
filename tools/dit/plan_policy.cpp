#include "plan_policy.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "exchange/local/local_ranks.hpp"
#include "field.hpp"
#include "files.hpp"
#include "profile.hpp"
#include "profile/policy_search.hpp"
#include "progress.hpp"
#include "quantity.hpp"
#include "report.hpp"
#include "wire/wire_policy_file.hpp"

namespace dit::tool {

namespace {

constexpr int most_runs = 8;
constexpr double close_enough = 0.5;  // dB above what was asked for
constexpr double lost_image = 8;      // dB of tensors to take back where a policy left no image at all

/// What is asked of a policy, on some images.
class Trial {
 public:
  Trial(const LoadedModel& model, const GenerateOptions& options, const PolicyWords& words)
      : model_(model), options_(options), words_(words), exact_(run(std::nullopt)) {}

  /// Of the median image, dB to the exact one.
  [[nodiscard]] double psnr(const WirePolicy& policy) const {
    std::vector<at::Tensor> images;
    try {
      images = run(policy);
    } catch (const NotFinite&) {
      return -std::numeric_limits<double>::infinity();
    }
    std::vector<double> values;
    for (std::size_t i = 0; i < images.size(); ++i) {
      values.push_back(quality(images[i], exact_[i], field_range).psnr_db);
    }
    return median(values);
  }

 private:
  [[nodiscard]] std::vector<at::Tensor> run(const std::optional<WirePolicy>& policy) const {
    std::vector<at::Tensor> images;
    LocalGroupOptions group;
    group.ranks = words_.ranks;
    group.ranks_per_node = words_.ranks_per_node;
    run_local_ranks(group, [&](ExchangeContext& context) {
      Engine engine(model_, &context);
      for (int image = 0; image < words_.images; ++image) {
        GenerateOptions options = options_;
        options.schedule = Schedule::v_first;
        options.seed += static_cast<std::uint64_t>(image);
        options.label = static_cast<int>((options.label + image) % model_.config.network->shape().classes);
        options.wire = policy;
        ProgressLine progress("dit plan, " + std::string(policy ? "with a policy" : "exact") + ", image " +
                                  std::to_string(image + 1) + " of " + std::to_string(words_.images),
                              context.rank() == 0);
        const at::Tensor made = engine.generate(options, progress.callback()).image;
        if (context.rank() == 0) images.push_back(made);
      }
    });
    return images;
  }

  const LoadedModel& model_;
  const GenerateOptions& options_;
  const PolicyWords& words_;
  std::vector<at::Tensor> exact_;
};

double decibels(double noise) {
  return -10 * std::log10(noise);
}

/// Looks for the noisiest tensors, in dB below the tensors themselves, whose images are still good enough.
/// Images are better by about as much as their tensors are; where they are not, the middle of what is known
/// counts.
class NoiseSearch {
 public:
  explicit NoiseSearch(double wanted) : wanted_(wanted), next_(wanted - first_offset) {}

  [[nodiscard]] double next() const { return next_; }
  void tried(double below, double measured) {
    (measured >= wanted_ ? good_ : bad_) = below;
    const double step = std::isfinite(measured) ? wanted_ + close_enough / 2 - measured
                        : measured > 0          ? -lost_image  // the same bits
                                                : lost_image;
    next_ = below + step;
    const bool inside = bad_ < next_ && next_ < good_;
    if (!inside && std::isfinite(good_ - bad_)) next_ = (good_ + bad_) / 2;
  }
  /// Nothing between what is good and what is not is worth another run.
  [[nodiscard]] bool ended() const { return good_ - bad_ < close_enough / 2; }

 private:
  static constexpr double first_offset = 15;  // dB of pixels over tensors
  double wanted_, next_;
  double good_ = std::numeric_limits<double>::infinity();  // the noisiest that was good
  double bad_ = -std::numeric_limits<double>::infinity();  // the least noisy one that was not
};

FoundPolicy for_quality(const RedundancyProfile& profile, const Trial& trial, double wanted) {
  NoiseSearch search(wanted);
  std::optional<FoundPolicy> best;
  for (int run = 0; run < most_runs && !search.ended(); ++run) {
    const double below = search.next();
    FoundPolicy found = policy_for_noise(profile, std::pow(10.0, -below / 10));
    const double measured = trial.psnr(found.policy);
    std::cerr << "run " << run + 1 << ": 1/" << figure(1 / found.bytes) << " of the bytes, tensors "
              << figure(decibels(found.noise)) << " dB, images " << figure(measured) << " dB" << std::endl;
    search.tried(below, measured);
    if (measured >= wanted && (!best || found.bytes < best->bytes)) best = std::move(found);
    if (measured >= wanted && measured < wanted + close_enough) break;
  }
  if (!best) {
    throw std::runtime_error("--quality " + figure(wanted) + "dB: no policy found in " +
                             std::to_string(most_runs) + " runs: expected less");
  }
  return *best;
}

}  // namespace

void plan_policy(const RunWords& run, const PolicyWords& words) {
  require_outputs({{"-o", words.out}});
  if (words.ranks_per_node >= words.ranks) {
    throw std::invalid_argument("--ranks-per-node is " + std::to_string(words.ranks_per_node) +
                                ", expected less than " + std::to_string(words.ranks) +
                                " ranks: only links between nodes have policies");
  }
  ModelSource source(run.model);
  GenerateOptions options = read_run(run, source.get().config);
  options.wire.reset();  // of the command's rows: here the policy is what is looked for
  const RedundancyProfile profile = profile_of(source.get(), options, momentum_for(words.momentum, options));
  const Trial trial(source.get(), options, words);
  FoundPolicy found;
  if (words.quality > 0) {
    found = for_quality(profile, trial, words.quality);
  } else {
    found = policy_for_bytes(profile, words.bytes);
  }
  found.policy.name =
      words.quality > 0 ? "quality-" + figure(words.quality) + "dB" : "bytes-" + figure(words.bytes);
  write_text(words.out, to_json(found.policy));
  std::cout << words.out << ": " << found.policy.rules.size() << " rules, 1/" << figure(1 / found.bytes)
            << " of the bytes of 16-bit numbers, " << figure(trial.psnr(found.policy))
            << " dB to the exact image" << std::endl;
}

}  // namespace dit::tool
