#include "weights/model_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../message_of.hpp"
#include "../test_folder.hpp"
#include "small_model.hpp"
#include "weights/safetensors.hpp"

namespace dit {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// The error for the small model's config with one change.
template <typename Change>
std::string config_error(const Change& change) {
  json document = json::parse(to_json(small_model_config()));
  change(document);
  return message_of([&] { static_cast<void>(parse_model_config(document.dump(), "c")); });
}

TEST(ModelConfig, ComesBack) {
  const ModelConfig config = small_model_config();
  const ModelConfig read = parse_model_config(to_json(config), "c");
  EXPECT_EQ(to_json(read), to_json(config));
  EXPECT_EQ(pixel_dit_config(*read.network), small_network());
  EXPECT_EQ(read.class_names, config.class_names);
  EXPECT_EQ(read.channels[1].name, "v");
  EXPECT_EQ(read.channels[1].mean, 0.125);
  EXPECT_EQ(read.channels[1].scale, 4);
  EXPECT_EQ(read.trained_sizes, config.trained_sizes);
  EXPECT_EQ(read.guidance, 1.5);
  EXPECT_EQ(read.steps, 7);
}

TEST(ModelConfig, Keys) {
  EXPECT_EQ(config_error([](json& c) { c["_class_name"] = "SD3Transformer2DModel"; }),
            "c: _class_name = \"SD3Transformer2DModel\", expected \"PixelDit\"");
  EXPECT_EQ(config_error([](json& c) { c.erase("_class_name"); }), "c: key \"_class_name\" is missing");
  EXPECT_EQ(config_error([](json& c) { c = json::array(); }),
            "c: the file = an array of 0, expected an object");
  EXPECT_EQ(config_error([](json& c) { c["stepps"] = 1; }),
            "c: unknown key \"stepps\", expected _class_name, network, class_names, channels, trained_sizes, "
            "scheduler, "
            "guidance, steps");
  EXPECT_THAT(config_error([](json& c) { c["network"]["depth"] = 1; }),
              HasSubstr("c: unknown key \"network.depth\", expected channels, patch"));
  EXPECT_EQ(config_error([](json& c) { c["network"].erase("heads"); }),
            "c: key \"network.heads\" is missing");
  EXPECT_EQ(config_error([](json& c) { c["network"] = 3; }), "c: network = 3, expected an object");
  EXPECT_THAT(message_of([] { static_cast<void>(parse_model_config("{", "c")); }),
              HasSubstr("c: not JSON: "));
  EXPECT_EQ(message_of([] { static_cast<void>(parse_model_config(R"({"a":1,"a":2})", "c")); }),
            "c: key \"a\" is used twice in one object");
}

TEST(ModelConfig, Values) {
  EXPECT_EQ(config_error([](json& c) { c["network"]["layers"] = 0; }),
            "c: network.layers = 0, expected an integer from 1 to 1000");
  EXPECT_EQ(config_error([](json& c) { c["network"]["layers"] = 18446744073709551615U; }),
            "c: network.layers = 18446744073709551615, expected an integer from 1 to 1000");
  EXPECT_EQ(config_error([](json& c) { c["network"]["width"] = 8.0; }),
            "c: network.width = 8.0, expected an integer from 1 to 65536");
  EXPECT_EQ(config_error([](json& c) { c["network"]["head_dim"] = 6; }),
            "c: network.head_dim = 6, expected a multiple of 4");
  EXPECT_EQ(config_error([](json& c) { c["network"]["rope_theta"] = 1; }),
            "c: network.rope_theta = 1, expected a number above 1");
  EXPECT_EQ(config_error([](json& c) { c["steps"] = -3; }),
            "c: steps = -3, expected an integer from 1 to 1000");
  EXPECT_EQ(config_error([](json& c) { c["guidance"] = "2"; }),
            "c: guidance = \"2\", expected a number from 0");
  EXPECT_EQ(config_error([](json& c) { c["scheduler"] = "ddpm"; }),
            "c: scheduler = \"ddpm\", expected \"flow_match_euler\"");
}

TEST(ModelConfig, Lists) {
  EXPECT_EQ(config_error([](json& c) { c["class_names"].erase(0); }),
            "c: class_names = an array of 2, expected an array of 3");
  EXPECT_EQ(config_error([](json& c) { c["class_names"][1] = "spots"; }),
            "c: class_names[1] = \"spots\", expected a name that no other class has");
  EXPECT_EQ(config_error([](json& c) { c["class_names"][2] = "7"; }),
            "c: class_names[2] = \"7\", expected a name of 1 to 64 letters, digits, '_' and '-' that begins "
            "with a letter");
  EXPECT_EQ(config_error([](json& c) { c["channels"].push_back(c["channels"][0]); }),
            "c: channels = an array of 3, expected an array of 2");
  EXPECT_EQ(config_error([](json& c) { c["channels"][1]["scale"] = 0; }),
            "c: channels[1].scale = 0, expected a number above 0");
  EXPECT_EQ(config_error([](json& c) { c["channels"][0]["mean"] = nullptr; }),
            "c: channels[0].mean = null, expected a finite number");
  EXPECT_EQ(config_error([](json& c) { c["trained_sizes"] = json::array(); }),
            "c: trained_sizes = an array of 0, expected an array of 1 to 64");
  EXPECT_EQ(config_error([](json& c) { c["trained_sizes"][1] = 17; }),
            "c: trained_sizes[1] = 17, expected a multiple of network.patch = 2");
  EXPECT_EQ(config_error([](json& c) { c["trained_sizes"][0] = -16; }),
            "c: trained_sizes[0] = -16, expected an integer from 1 to 16384");
}

TEST(ModelFiles, ComeBackAsFp32) {
  const TestFolder folder;
  const TensorMap weights = small_model_weights(at::kBFloat16);
  save_model(folder / "m", small_model_config(), weights, {{"steps", "5"}});
  LoadedModel model = load_model(folder / "m");
  EXPECT_EQ(model.origin, (folder / "m").string());
  EXPECT_EQ(pixel_dit_config(*model.config.network), small_network());
  ASSERT_EQ(model.weights.size(), weights.size());
  for (auto& [name, tensor] : model.weights) {
    ASSERT_EQ(tensor.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(tensor, weights.at(name).to(at::kFloat))) << name;
    tensor.add_(1);  // memory of its own
  }
  EXPECT_EQ(SafetensorsFile(folder / "m/model.safetensors").metadata().at("steps"), "5");
  EXPECT_NO_THROW((void)model.config.network->build(model.weights));
}

TEST(ModelFiles, Fp32WeightsAreCopiedToo) {
  const TestFolder folder;
  save_model(folder / "m", small_model_config(), small_model_weights(at::kFloat), {});
  LoadedModel model = load_model(folder / "m");
  model.weights.at("proj_out.weight").fill_(7);
  EXPECT_EQ(load_model(folder / "m").weights.at("proj_out.weight").max().item<float>(), 0.0F);
}

TEST(ModelFiles, FromShards) {
  const TestFolder folder;
  save_model(folder.path(), small_model_config(), small_model_weights(at::kFloat), {});
  std::filesystem::rename(folder / "model.safetensors", folder / "one.safetensors");
  json index;
  for (const auto& [name, tensor] : small_model_weights(at::kFloat))
    index["weight_map"][name] = "one.safetensors";
  folder.file("model.safetensors.index.json", index.dump());
  EXPECT_EQ(load_model(folder.path()).weights.size(), index["weight_map"].size());
}

TEST(ModelFiles, MisuseNamesWhatIsWrong) {
  const TestFolder folder;
  const auto error = [](const std::filesystem::path& path) {
    return message_of([&] { static_cast<void>(load_model(path)); });
  };
  EXPECT_EQ(error(folder / "no"),
            (folder / "no").string() + ": not a folder, expected one with config.json and model.safetensors");
  EXPECT_EQ(error(folder.path()),
            (folder / "config.json").string() + ": cannot be read: No such file or directory");
  folder.file("config.json", to_json(small_model_config()));
  EXPECT_EQ(error(folder.path()),
            folder.path().string() +
                ": no model.safetensors and no model.safetensors.index.json, expected one of them");
  folder.file("config.json", std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(error(folder.path()),
            (folder / "config.json").string() + ": cannot be read: more than 1048576 bytes");
  ModelConfig bad = small_model_config();
  bad.steps = 0;
  EXPECT_THAT(message_of([&] { save_model(folder / "n", bad, {}, {}); }),
              HasSubstr("config.json: steps = 0, expected"));
  EXPECT_FALSE(std::filesystem::exists(folder / "n"));
}

TEST(ModelFiles, WithoutAnEmbeddedModel) {
  EXPECT_EQ(message_of([] { static_cast<void>(load_model("")); }),
            "this build has no embedded model: name a folder with config.json and model.safetensors (or "
            "build again with "
            "DIT_EMBEDDED_MODEL set to one)");
}

TEST(ModelFiles, ClassesByNameAndNumber) {
  const ModelConfig config = small_model_config();
  EXPECT_EQ(class_named(config, "stripes"), 1);
  EXPECT_EQ(class_named(config, "2"), 2);
  for (const std::string text : {"3", "-1", "", "Spots", "1.0", "99999999999999999999"}) {
    EXPECT_EQ(message_of([&] { static_cast<void>(class_named(config, text)); }),
              "class '" + text + "': expected a number from 0 to 2 or one of spots, stripes, waves");
  }
}

}  // namespace
}  // namespace dit
