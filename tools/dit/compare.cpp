// dit compare: how far two images, or two fields, are apart.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <vector>

#include "commands.hpp"
#include "field.hpp"
#include "files.hpp"
#include "quantity.hpp"
#include "validators.hpp"

namespace dit::tool {

namespace {

struct Words {
  std::string a, b;
  std::string difference;
  double gain = 8;
  std::optional<double> range;
  bool json = false;
};

bool is_png(const std::string& name) {
  return name.ends_with(".png");
}

/// Pixels as planes of values from 0 to 255.
std::vector<float> planes(const Image& image) {
  const std::size_t pixels = image.rgb.size() / 3;
  std::vector<float> result(image.rgb.size());
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      result[channel * pixels + i] = static_cast<float>(image.rgb[i * 3 + channel]);
    }
  }
  return result;
}

struct Compared {
  Quality quality;
  double range = 0;
  bool equal = false;
};

Compared compare_pictures(const Words& words) {
  const Image a = read_png(words.a).image;
  const Image b = read_png(words.b).image;
  if (a.width != b.width || a.height != b.height) {
    const auto size = [](const Image& image) {
      return std::to_string(image.width) + "x" + std::to_string(image.height);
    };
    throw std::invalid_argument(words.b + " has " + size(b) + " pixels, expected " + size(a) + " as " +
                                words.a);
  }
  if (!words.difference.empty()) write_png(words.difference, difference(a, b, words.gain));
  const double range = words.range.value_or(255);
  return {compare(planes(a), planes(b), 3, a.height, a.width, range), range, a == b};
}

/// The range that a field's file names, or the model's usual one.
double range_of(const Words& words, const FieldFile& file) {
  if (words.range) return *words.range;
  const auto found = file.text.find("range");
  if (found == file.text.end()) return field_range;
  std::string text = found->second;
  if (const std::string wrong = number(1e-30, 1e30)(text); !wrong.empty()) {
    throw std::runtime_error(words.a + ": metadata \"range\" is " + wrong);
  }
  return std::stod(text);
}

Compared compare_fields(const Words& words) {
  if (!words.difference.empty())
    throw std::invalid_argument("--difference is for PNG files, but " + words.a + " is none");
  const FieldFile a = read_field(words.a);
  const FieldFile b = read_field(words.b);
  const double range = range_of(words, a);
  return {quality(a.image, b.image, range), range, at::equal(a.image, b.image)};
}

void print(const Words& words, const Compared& compared) {
  const Quality& q = compared.quality;
  if (words.json) {
    nlohmann::ordered_json json = {
        {"a", words.a}, {"b", words.b}, {"equal", compared.equal}, {"range", compared.range}};
    json["psnr_db"] = q.psnr_db;  // infinite: null, and for what is not finite
    json["finite"] = std::isfinite(q.mse);
    json["ssim"] = q.ssim;
    json["mse"] = q.mse;
    json["max_error"] = q.max_error;
    std::cout << json.dump(2) << std::endl;
    return;
  }
  std::cout << "PSNR       "
            << (!std::isfinite(q.mse)      ? "none (not all values are finite)"
                : std::isfinite(q.psnr_db) ? figure(q.psnr_db) + " dB"
                                           : "infinite (equal)")
            << "\nSSIM       " << q.ssim << "\nMSE        " << q.mse << "\nmax error  " << q.max_error
            << " of " << compared.range << std::endl;
}

}  // namespace

void add_compare_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compare", "PSNR, SSIM, MSE and largest error between two PNG or latents files.");
  const auto words = std::make_shared<Words>();
  command->add_option("a", words->a, "PNG, or safetensors of dit generate --save-latents")->required();
  command->add_option("b", words->b, "the same kind of file")->required();
  command->add_option("--difference", words->difference, "PNG of the difference to write")->type_name("FILE");
  command->add_option("--gain", words->gain, "factor of the difference's picture")
      ->check(number(0.001, 1000))
      ->capture_default_str();
  command
      ->add_option("--range", words->range,
                   "largest minus smallest possible value; default: 255, or the file's")
      ->check(number(1e-30, 1e30));
  command->add_flag("--json", words->json,
                    "JSON; psnr_db is null when equal, and when not all values are finite");
  command->callback([words] {
    if (is_png(words->a) != is_png(words->b)) {
      throw std::invalid_argument(words->a + " and " + words->b +
                                  ": expected two PNG files or two safetensors files");
    }
    require_outputs({{"--difference", words->difference, FileKind::picture}});
    print(*words, is_png(words->a) ? compare_pictures(*words) : compare_fields(*words));
  });
}

}  // namespace dit::tool
