#include <ATen/Context.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "trainer.hpp"

namespace dit::gray_scott {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& expected) {
  throw std::invalid_argument(name + " = " + value + ": expected " + expected);
}

void at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    refuse(name, std::to_string(value), "at least " + std::to_string(least));
  }
}

/// `inside`: the value lies where it is expected.
void within(const char* name, double value, bool inside, const char* expected) {
  if (!std::isfinite(value) || !inside) {
    refuse(name, std::to_string(value), expected);
  }
}

void check_data(const TrainOptions& o) {
  if (o.regimes.empty() || static_cast<std::int64_t>(o.regimes.size()) != o.network.classes) {
    refuse("classes", std::to_string(o.network.classes),
           "one per regime, " + std::to_string(o.regimes.size()));
  }
  if (o.network.channels != 2) {
    refuse("channels", std::to_string(o.network.channels), "2: u and v");
  }
  if (o.sizes.empty()) {
    refuse("sizes", "none", "one or more");
  }
  for (const TrainingSize& size : o.sizes) {
    if (size.size < 8 || size.size > 1024 || size.size % o.network.patch != 0) {
      refuse("size", std::to_string(size.size),
             "8 to 1024 pixels, a multiple of the patch, " + std::to_string(o.network.patch));
    }
    at_least("fields per class", size.per_class, 1);
  }
  at_least("simulation steps", o.simulation_steps, 1);
}

void check_course(const TrainOptions& o) {
  if (!o.steps && !o.minutes) {
    refuse("steps", "none", "steps, minutes or both");
  }
  if (o.steps) {
    at_least("steps", *o.steps, 1);
  }
  if (o.minutes) {
    within("minutes", *o.minutes, *o.minutes > 0, "more than 0");
  }
  at_least("batch", o.batch, 1);
  at_least("warm-up steps", o.warmup_steps, 0);
  at_least("log every", o.log_every, 1);
  within("learning rate", o.learning_rate, o.learning_rate > 0, "more than 0");
  within("dropped labels", o.drop_labels, o.drop_labels >= 0 && o.drop_labels < 1, "0 or more, less than 1");
  within("average", o.average, o.average >= 0 && o.average < 1, "0 or more, less than 1");
  within("clip", o.clip, o.clip > 0, "more than 0");
  within("mixed from", o.mixed_from, o.mixed_from >= 0 && o.mixed_from <= 1, "0 to 1");
  within("until", o.until, o.until > 0 && o.until <= 1, "more than 0, at most 1");
}

/// Hours of training must not end at a folder that cannot be written.
void check_output(const std::filesystem::path& folder) {
  if (folder.empty()) {
    refuse("output", "none", "a folder");
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    refuse("output", folder.string(),
           "a folder that can be made" + (error ? " (" + error.message() + ")" : ""));
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    refuse("output", folder.string(), "a folder that can be written");
  }
}

}  // namespace

at::Device parse_device(const std::string& name) {
  const bool cuda = at::hasCUDA() && torch::cuda::device_count() > 0;
  if (name == "auto") {
    return cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  }
  if (name == "cpu") {
    return at::kCPU;
  }
  const std::string digits = name.size() > 5 ? name.substr(5) : "";
  const bool numbered = name.rfind("cuda:", 0) == 0 && !digits.empty() && digits.size() < 4 &&
                        digits.find_first_not_of("0123456789") == std::string::npos;
  if (name != "cuda" && !numbered) {
    refuse("device", name, "auto, cpu, cuda or cuda:N");
  }
  const int number = numbered ? std::stoi(digits) : 0;
  const auto count = cuda ? static_cast<int>(torch::cuda::device_count()) : 0;
  if (number >= count) {
    refuse("device", name,
           count == 0 ? "cpu: this libtorch sees no CUDA device"
                      : "a number below " + std::to_string(count) + ", the devices there are");
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(number)};
}

void check(const TrainOptions& options) {
  check(options.network);
  check_data(options);
  check_course(options);
  (void)parse_device(options.device);
  check_output(options.output);
}

std::string to_json(const TrainReport& report) {
  nlohmann::ordered_json log = nlohmann::ordered_json::array();
  for (const LossPoint& p : report.log) {
    log.push_back({{"step", p.step},
                   {"progress", p.progress},
                   {"seconds", p.seconds},
                   {"loss", p.loss},
                   {"learning_rate", p.learning_rate}});
  }
  return nlohmann::ordered_json{{"first_step", report.first_step},
                                {"steps", report.steps},
                                {"parameters", report.parameters},
                                {"device", report.device},
                                {"simulation_seconds", report.simulation_seconds},
                                {"training_seconds", report.training_seconds},
                                {"final_loss", report.final_loss},
                                {"log", log}}
      .dump(1);
}

}  // namespace dit::gray_scott
