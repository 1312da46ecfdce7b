#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../message_of.hpp"
#include "../test_folder.hpp"
#include "weights/safetensors.hpp"

namespace dit {
namespace {

using testing::HasSubstr;

/// Two shards; the index's text is given.
class Sharded : public testing::Test {
 protected:
  Sharded() {
    write_safetensors(folder_ / "m-1.safetensors", {{"a", at::full({2}, 1.5).to(at::kBFloat16)}}, {});
    write_safetensors(folder_ / "m-2.safetensors", {{"b", at::full({1}, 2.0)}, {"c", at::full({1}, 3.0)}},
                      {});
  }
  TensorMap read(const std::string& index) {
    return read_checkpoint(folder_.file("m.safetensors.index.json", index));
  }
  /// Without the folder's name.
  std::string error(const std::string& index) {
    const std::string message = message_of([&] { read(index); });
    const std::string start = folder_.path().string() + "/m.safetensors.index.json: ";
    return message.compare(0, start.size(), start) == 0 ? message.substr(start.size())
                                                        : "(no name) " + message;
  }
  TestFolder folder_;
};

TEST_F(Sharded, AllShardsAreRead) {
  const TensorMap tensors = read(
      R"({"metadata":{"total_size":12},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-2.safetensors"}})");
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors.at("a").scalar_type(), at::kBFloat16) << "types are kept";
  EXPECT_EQ(tensors.at("a")[1].item<float>(), 1.5F);
  EXPECT_EQ(tensors.at("c").item<float>(), 3.0F);
}

TEST_F(Sharded, AFileAlone) {
  EXPECT_EQ(read_checkpoint(folder_ / "m-2.safetensors").size(), 2U);
}

TEST_F(Sharded, MisuseNamesWhatIsWrong) {
  EXPECT_EQ(error(R"({"weight_map":{"a":"m-1.safetensors","b":"m-3.safetensors"}})"),
            "shard m-3.safetensors is missing");
  EXPECT_EQ(error(R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})"),
            "tensor c of shard m-2.safetensors is not in weight_map");
  EXPECT_EQ(error(R"({"weight_map":{"a":"m-1.safetensors","d":"m-1.safetensors"}})"),
            "tensor d is not in its shard m-1.safetensors");
  EXPECT_EQ(error(R"({"weight_map":{"a":"m-1.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"}})"),
            "tensor b is in shard m-2.safetensors, expected only in m-1.safetensors, as weight_map says");
  EXPECT_EQ(error("[]"), "expected an object with weight_map, an object of tensor names and files");
  EXPECT_EQ(error(R"({"weight_map":[]})"),
            "expected an object with weight_map, an object of tensor names and files");
  EXPECT_EQ(error(R"({"weight_map":{"a":"m-1.safetensors","a":"m-2.safetensors"}})"),
            "key \"a\" is used twice in one object");
  EXPECT_THAT(error("{"), HasSubstr("not JSON"));
}

TEST_F(Sharded, ShardsLieInTheSameFolder) {
  const std::string end = ", expected the name of a .safetensors file in the same folder";
  for (const std::string name :
       {"../m-1.safetensors", "/etc/m-1.safetensors", "x/m-1.safetensors", "..\\\\m-1.safetensors", "m-1.bin",
        "", "..", "m-1.safetensors\\u0000.safetensors"}) {
    EXPECT_EQ(error(R"({"weight_map":{"a":")" + name + R"("}})"),
              "tensor \"a\" is in \"" + name + "\"" + end);
  }
  EXPECT_EQ(error(R"({"weight_map":{"a":1}})"), "tensor \"a\" is in 1" + end);
}

TEST_F(Sharded, TheIndexMustBeThere) {
  EXPECT_THAT(message_of([&] { static_cast<void>(read_checkpoint(folder_ / "x.safetensors.index.json")); }),
              HasSubstr("x.safetensors.index.json: cannot be read: No such file or directory"));
}

}  // namespace
}  // namespace dit
