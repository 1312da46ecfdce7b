#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../message_of.hpp"
#include "../test_folder.hpp"
#include "bytes.hpp"
#include "weights/safetensors.hpp"

namespace dit {
namespace {

using testing::HasSubstr;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WriteSafetensors, ByteForByte) {
  const TestFolder folder;
  write_safetensors(folder / "a", {{"z", at::tensor({1, 2}, at::kChar)}, {"b", at::full({}, -1, at::kInt)}},
                    {{"k", "v"}});
  const std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
      R"("z":{"dtype":"I8","shape":[2],"data_offsets":[4,6]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(text_of(folder / "a"), safetensors_bytes(padded, "\xff\xff\xff\xff\x01\x02"));
}

TEST(WriteSafetensors, EveryTypeComesBack) {
  const TestFolder folder;
  TensorMap tensors;
  at::manual_seed(3);
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    tensors[at::toString(type)] = at::randn({3, 5}).to(type);
  }
  for (const auto type : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte}) {
    tensors[at::toString(type)] = at::randint(0, 100, {7}, at::TensorOptions(type));
  }
  tensors["bool"] = at::randn({4}) > 0;
  tensors["turned"] = at::randn({4, 6}).t();
  tensors["none"] = at::zeros({0, 2});
  tensors["\xc3\xa9t\xc3\xa9 \"\n"] = at::randn({});
  write_safetensors(folder / "a.safetensors", tensors, {{"seed", "3"}, {"empty", ""}});
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"seed", "3"}, {"empty", ""}}));
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = file.tensor(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
  }
}

TEST(WriteSafetensors, RefusesWhatTheFormatCannotSay) {
  const TestFolder folder;
  const auto error = [&](const TensorMap& tensors, const std::map<std::string, std::string>& metadata = {}) {
    return message_of([&] { write_safetensors(folder / "a", tensors, metadata); });
  };
  const std::string path = (folder / "a").string();
  EXPECT_EQ(error({{"__metadata__", at::zeros({1})}}),
            path + ": tensor __metadata__ has a name that the format keeps for itself");
  EXPECT_EQ(error({{"a", at::Tensor()}}), path + ": tensor a is not a dense tensor");
  EXPECT_THAT(error({{"a", at::zeros({1}, at::kComplexFloat)}}),
              HasSubstr("tensor a has elements of ComplexFloat, expected one of F64 F32"));
  EXPECT_EQ(error({{"\xff", at::zeros({1})}}), path + ": a tensor's name or a metadata text is not UTF-8");
  EXPECT_EQ(error({}, {{"a", "\xff"}}), path + ": a tensor's name or a metadata text is not UTF-8");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(WriteSafetensors, AFailureLeavesTheOldFile) {
  const TestFolder folder;
  EXPECT_EQ(message_of([&] { write_safetensors(folder / "no/a", {}, {}); }),
            (folder / "no/a").string() + ": cannot be written: No such file or directory");
  std::filesystem::create_directories(folder / "a/inside");  // a folder cannot be replaced by a file
  EXPECT_THAT(message_of([&] { write_safetensors(folder / "a", {}, {}); }),
              HasSubstr("a: cannot be written: "));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.part"));
  EXPECT_TRUE(std::filesystem::exists(folder / "a/inside"));
}

}  // namespace
}  // namespace dit
