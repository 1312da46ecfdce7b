// The engine over a plugin that joins processes: the bits of flat exchanges over the plugin that joins
// threads. Usage: plugins_mpi PLUGIN...
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "small_model.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

struct Case {
  Schedule schedule;
  GuidanceMode mode;
  std::optional<double> ratio;  ///< V-Major with this fraction of rows that stay
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
    for (const GuidanceMode mode : {GuidanceMode::batched, GuidanceMode::sequential}) {
      for (const std::optional<double> ratio : {std::optional<double>(), std::optional(0.5)}) {
        cases.push_back({schedule, mode, ratio});
      }
    }
  }
  return cases;
}

std::string name_of(const Case& one) {
  return std::string(to_string(one.schedule)) + ' ' + to_string(one.mode) +
         (one.ratio ? " v-major" : " exact");
}

/// V-Major selects between any two ranks, so that it does the same on all plugins, whatever their levels.
GenerateOptions options_of(const Case& one, const ExchangeContext& context) {
  GenerateOptions options = test::small_image();
  options.schedule = one.schedule;
  options.guidance_mode = one.mode;
  if (one.ratio) {
    VMajorPolicy rows;
    rows.warmup_steps = 1;
    rows.ratio.kind = RatioSchedule::Kind::constant;
    rows.ratio.value = *one.ratio;
    rows.boundary = context.levels().front();
    options.wire = wire_policy_of(rows, options.sampler.steps);
  }
  return options;
}

std::vector<at::Tensor> images_over(ExchangeContext& context, const std::vector<Case>& cases) {
  std::vector<at::Tensor> images;
  Engine engine(test::small_model(), &context);
  for (const Case& one : cases) {
    images.push_back(engine.generate(options_of(one, context)).image);
  }
  return images;
}

/// On threads, with flat exchanges: exact and with V-Major.
std::vector<at::Tensor> expected_images(int ranks, const std::vector<Case>& cases) {
  const std::vector<Case> flat = {{Schedule::flat, GuidanceMode::batched, {}},
                                  {Schedule::flat, GuidanceMode::batched, 0.5}};
  std::vector<at::Tensor> of_first;
  LocalGroupOptions group;
  group.ranks = ranks;
  run_local_ranks(group, [&](ExchangeContext& context) {
    std::vector<at::Tensor> images = images_over(context, flat);
    if (context.rank() == 0) {
      of_first = std::move(images);
    }
  });
  std::vector<at::Tensor> expected;
  for (const Case& one : cases) {
    expected.push_back(of_first[one.ratio ? 1 : 0]);
  }
  return expected;
}

int run(const std::vector<std::string>& plugins) {
  int wrong = 0;
  const std::vector<Case> cases = all_cases();
  for (const std::string& plugin : plugins) {
    ExchangeContext::Options options;
    options.timeout_seconds = 60;
    ExchangeContext context(ExchangePlugin::load(plugin), options);
    const std::vector<at::Tensor> images = images_over(context, cases);
    if (context.rank() == 0) {
      const std::vector<at::Tensor> expected = expected_images(context.size(), cases);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        if (!at::equal(images[i], expected[i])) {
          std::cerr << context.plugin().name() << ": " << name_of(cases[i])
                    << " is not the image of flat exchanges\n";
          ++wrong;
        }
      }
      std::cout << context.plugin().name() << " on " << context.size() << " ranks: " << cases.size()
                << " images\n";
    }
    context.barrier();
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dit

int main(int argc, char** argv) {
  try {
    return dit::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
