// Wire policies: a file's text (it begins with a brace), a mode ("residual int4") or V-Major's words. What is
// read is written as it was read, and gives a mode for every place of a run.
#include "fuzz.hpp"
#include "wire/v_major.hpp"
#include "wire/wire_policy_file.hpp"

namespace {

constexpr int kLayers = 3;
constexpr int kSteps = 6;

void resolve(const dit::WirePolicy& policy) {
  const dit::WirePlan plan(policy, {kLayers, kSteps, {"tile", "node", "world"}, 2});
  for (int tensor = 0; tensor < 4; ++tensor)
    for (int level = 0; level < 3; ++level)
      for (int layer = 0; layer < kLayers; ++layer)
        for (int step = 0; step < kSteps; ++step)
          for (int branch = 0; branch < dit::kBranches; ++branch)
            for (const dit::TokenPart tokens : plan.parts()) {
              const dit::WireMode mode =
                  plan.mode(static_cast<dit::AttentionTensor>(tensor), level, layer, step, branch, tokens);
              fuzz::require(dit::parse_wire_mode(to_string(mode)) == mode, "a mode of a plan can be written");
            }
}

void read_file(std::string_view text) {
  dit::WirePolicy policy;
  try {
    policy = dit::parse_wire_policy(text, "file");
  } catch (const std::runtime_error& error) {
    fuzz::require(std::string_view(error.what()).starts_with("file: "), "the error names the file");
    return;
  }
  const std::string written = to_json(policy);
  fuzz::require(dit::parse_wire_policy(written, "written") == policy,
                "a policy is read as it was written: " + written);
  resolve(policy);
}

void read_words(std::string_view text) {
  if (text.find('@') != std::string_view::npos) return;  // what lies on a disk is no input
  const dit::VMajorPolicy policy = dit::parse_v_major(text);
  fuzz::require(dit::parse_v_major(to_string(policy)) == policy, "V-Major's words: " + to_string(policy));
  resolve(dit::wire_policy_of(policy, kSteps));
}

void read_mode(std::string_view text) {
  const dit::WireMode mode = dit::parse_wire_mode(text);
  fuzz::require(dit::parse_wire_mode(to_string(mode)) == mode, "a mode's words: " + to_string(mode));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  try {
    if (text.starts_with("{"))
      read_file(text);
    else if (text.starts_with("v-major") && (text.size() == 7 || text[7] == ':'))
      read_words(text);
    else
      read_mode(text);
  } catch (const std::invalid_argument& error) {
    fuzz::require_words(error);
  }
  return 0;
}
