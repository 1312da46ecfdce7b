// A model's config.json: refused in words, or written as it was read.
#include "fuzz.hpp"
#include "weights/model_files.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const dit::ModelConfig config = dit::parse_model_config(std::string(fuzz::text_of(data, size)), "file");
    fuzz::require(config.network != nullptr, "a config has a network");
    const std::string text = dit::to_json(config);
    fuzz::require(dit::to_json(dit::parse_model_config(text, "written")) == text,
                  "written as it was read: " + text);
  } catch (const std::runtime_error& error) {
    fuzz::require(std::string_view(error.what()).starts_with("file"), "the error names the file");
  }
  return 0;
}
