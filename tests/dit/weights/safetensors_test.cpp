#include "weights/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <deque>

#include "../message_of.hpp"
#include "../test_folder.hpp"
#include "bytes.hpp"

namespace dit {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

/// Reads bytes that are not in a file.
SafetensorsFile file_of(const std::string& bytes) {
  static std::deque<std::string> kept;  // the file borrows them
  kept.push_back(bytes);
  return {"x.safetensors", reinterpret_cast<const std::byte*>(kept.back().data()), kept.back().size()};
}
std::string error_of(const std::string& header, const std::string& data) {
  return message_of([&] { static_cast<void>(file_of(safetensors_bytes(header, data))); });
}
/// Of a file with one tensor "a" of 8 bytes.
std::string entry_error(const std::string& entry) {
  return error_of(R"({"a":)" + entry + "}", "12345678");
}

TEST(Safetensors, ReadsAFileByHand) {
  const SafetensorsFile file = file_of(safetensors_bytes(
      R"({"__metadata__":{"made by":"hand"},"b":{"dtype":"I16","shape":[2],"data_offsets":[8,12]},)"
      R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}} )",
      std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x05\x00\xff\xff", 12)));
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[1].name, "b");
  EXPECT_EQ(file.entries()[1].begin, 8U);
  EXPECT_EQ(file.entries()[1].dtype, "I16");
  EXPECT_THAT(file.entries()[0].shape, ElementsAre(2, 1));
  EXPECT_EQ(file.metadata().at("made by"), "hand");
  EXPECT_TRUE(file.contains("b"));
  EXPECT_FALSE(file.contains("__metadata__"));
  EXPECT_TRUE(at::equal(file.tensor("a"), at::tensor({1.0F, -2.0F}).reshape({2, 1})));
  EXPECT_TRUE(at::equal(file.tensor("b"), at::tensor({5, -1}, at::kShort)));
  EXPECT_EQ(message_of([&] { static_cast<void>(file.tensor("c")); }),
            "x.safetensors: tensor c is not in this file");
}

TEST(Safetensors, ReadsScalarsEmptyTensorsAndEmptyFiles) {
  const SafetensorsFile file = file_of(safetensors_bytes(
      R"({"none":{"dtype":"F64","shape":[3,0],"data_offsets":[0,0]},"one":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
      "\x07"));
  EXPECT_EQ(file.tensor("none").sizes(), (at::IntArrayRef{3, 0}));
  EXPECT_EQ(file.tensor("one").dim(), 0);
  EXPECT_EQ(file.tensor("one").item<int>(), 7);
  EXPECT_TRUE(file_of(safetensors_bytes("{}", "")).entries().empty());
}

TEST(Safetensors, DataAtAnOddAddressIsCopied) {
  for (int pad = 0; pad < 8; ++pad) {
    const SafetensorsFile file =
        file_of(safetensors_bytes(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})" +
                                      std::string(static_cast<std::size_t>(pad), ' '),
                                  std::string("\x00\x00\x00\x00\x00\x00\x04\x40", 8)));
    EXPECT_EQ(file.tensor("a").item<double>(), 2.5) << pad;
  }
}

TEST(Safetensors, TensorsKeepTheFileInMemory) {
  const TestFolder folder;
  const auto path = folder.file(
      "a.safetensors", safetensors_bytes(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "abc"));
  at::Tensor tensor;
  {
    const SafetensorsFile file(path);
    tensor = file.tensor("a");
    EXPECT_EQ(tensor.data_ptr(), file.tensor("a").data_ptr()) << "not copied";
  }
  std::filesystem::remove(path);
  EXPECT_EQ(tensor[2].item<int>(), 'c');
}

TEST(Safetensors, WhatIsNotAFileOfThisKind) {
  const TestFolder folder;
  EXPECT_EQ(message_of([&] { SafetensorsFile{folder / "no"}; }),
            (folder / "no").string() + ": cannot be read: No such file or directory");
  EXPECT_EQ(message_of([&] { SafetensorsFile{folder.path()}; }),
            folder.path().string() + ": cannot be read: is a folder");
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { SafetensorsFile{pipe}; }),
            pipe.string() + ": cannot be read: is no regular file");
  EXPECT_EQ(message_of([&] { SafetensorsFile{folder.file("empty", "")}; }),
            (folder / "empty").string() +
                ": 0 bytes, expected a safetensors file: 8 bytes of header length, a header, data");
}

TEST(Safetensors, HeaderLength) {
  const auto error = [](const std::string& bytes) {
    return message_of([&] { static_cast<void>(file_of(bytes)); });
  };
  EXPECT_EQ(error("1234567"),
            "x.safetensors: 7 bytes, expected a safetensors file: 8 bytes of header length, a header, data");
  EXPECT_EQ(error(little_endian(3) + "{}"),
            "x.safetensors: header length 3, but only 2 bytes follow: the file is cut short");
  EXPECT_EQ(error(little_endian(100'000'001) + "{}"),
            "x.safetensors: header length 100000001, expected at most 100000000: not a safetensors file");
  EXPECT_EQ(error(little_endian(~std::uint64_t{0}) + "{}"),
            "x.safetensors: header length 18446744073709551615, expected at most 100000000: not a "
            "safetensors file");
  EXPECT_EQ(error(little_endian(0)),
            "x.safetensors: the header does not begin with '{': not a safetensors file");
  EXPECT_EQ(error(little_endian(3) + " {}"),
            "x.safetensors: the header does not begin with '{': not a safetensors file");
}

TEST(Safetensors, HeaderText) {
  EXPECT_THAT(error_of(R"({"a":)", ""),
              testing::StartsWith("x.safetensors: header: not JSON: parse error at line 1, column 6"));
  EXPECT_THAT(error_of("{}\x01", ""), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("{\"\xff\":1}", ""), HasSubstr("not JSON"));
  EXPECT_EQ(error_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{}})", "1"),
            "x.safetensors: header: key \"a\" is used twice in one object");
  EXPECT_EQ(error_of(R"({"a":{"dtype":"U8","dtype":"I8"}})", "1"),
            "x.safetensors: header: key \"dtype\" is used twice in one object");
  EXPECT_EQ(error_of(R"({"a":)" + std::string(100000, '[') + "}", ""),
            "x.safetensors: header: nested deeper than 8 levels");
  EXPECT_EQ(error_of(R"({"__metadata__":[]})", ""),
            "x.safetensors: __metadata__ is an array of 0, expected an object of strings");
  EXPECT_EQ(error_of(R"({"__metadata__":{"n":1}})", ""),
            "x.safetensors: __metadata__ \"n\" is 1, expected a string");
}

TEST(Safetensors, EntryKeys) {
  EXPECT_EQ(
      entry_error("[1]"),
      "x.safetensors: tensor \"a\": an array of 1, expected an object of dtype, shape and data_offsets");
  EXPECT_EQ(entry_error(R"({"shape":[8],"data_offsets":[0,8]})"),
            "x.safetensors: tensor \"a\": key \"dtype\" is missing");
  EXPECT_EQ(entry_error(R"({"dtype":"U8","data_offsets":[0,8]})"),
            "x.safetensors: tensor \"a\": key \"shape\" is missing");
  EXPECT_EQ(entry_error(R"({"dtype":"U8","shape":[8]})"),
            "x.safetensors: tensor \"a\": key \"data_offsets\" is missing");
  EXPECT_EQ(entry_error(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8],"stride":[1]})"),
            "x.safetensors: tensor \"a\": unknown key \"stride\", expected dtype, shape and data_offsets");
}

TEST(Safetensors, EntryTypes) {
  const std::string all = "F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 I16 I8 U8 BOOL";
  EXPECT_EQ(entry_error(R"({"dtype":"F31","shape":[8],"data_offsets":[0,8]})"),
            "x.safetensors: tensor \"a\": dtype \"F31\", expected one of " + all);
  EXPECT_EQ(entry_error(R"({"dtype":4,"shape":[8],"data_offsets":[0,8]})"),
            "x.safetensors: tensor \"a\": dtype 4, expected one of " + all);
  const SafetensorsFile bools =
      file_of(safetensors_bytes(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\x01\x02"));
  EXPECT_EQ(message_of([&] { static_cast<void>(bools.tensor("a")); }),
            "x.safetensors: tensor a is BOOL and has a byte 2, expected 0 or 1");
}

TEST(Safetensors, Float8IsReadOrRefused) {  // as old or new as this libtorch is
  const SafetensorsFile file =
      file_of(safetensors_bytes(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "\x38"));
  EXPECT_EQ(file.entries()[0].dtype, "F8_E4M3");
  const std::string error =
      message_of([&] { EXPECT_EQ(file.tensor("a").to(at::kFloat).item<float>(), 1.0F); });
  EXPECT_THAT(error, testing::AnyOf(nothing_thrown,
                                    "x.safetensors: tensor a is F8_E4M3, which this libtorch does not know: "
                                    "libtorch 2.1 or newer does"));
}

TEST(Safetensors, EntryShapes) {
  const auto error = [](const std::string& shape) {
    return entry_error(R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,8]})");
  };
  const std::string whole = ", expected integers from 0 to 9223372036854775807";
  EXPECT_EQ(error("[2]"), nothing_thrown);
  EXPECT_EQ(error("2"), "x.safetensors: tensor \"a\": shape 2, expected an array of at most 64");
  EXPECT_EQ(error("[2,-1]"), "x.safetensors: tensor \"a\": shape has -1" + whole);
  EXPECT_EQ(error("[2.0]"), "x.safetensors: tensor \"a\": shape has 2.0" + whole);
  EXPECT_EQ(error("[9223372036854775808]"),
            "x.safetensors: tensor \"a\": shape has 9223372036854775808" + whole);
  EXPECT_EQ(error("[18446744073709551616]"),
            "x.safetensors: tensor \"a\": shape has 1.8446744073709552e+19" + whole);
  EXPECT_EQ(error("[\"2\"]"), "x.safetensors: tensor \"a\": shape has \"2\"" + whole);
  EXPECT_EQ(
      error("[4294967296,1073741824]"),
      "x.safetensors: tensor \"a\": shape [4294967296,1073741824] has more bytes than 64 bits can count");
  EXPECT_EQ(
      error("[0,9223372036854775807,8]"),
      "x.safetensors: tensor \"a\": shape [0,9223372036854775807,8] has more bytes than 64 bits can count");
  std::string deep = "[1";
  for (int i = 0; i < 64; ++i) deep += ",1";
  EXPECT_EQ(error(deep + "]"),
            "x.safetensors: tensor \"a\": shape an array of 65, expected an array of at most 64");
}

TEST(Safetensors, EntryOffsets) {
  const auto error = [](const std::string& offsets) {
    return entry_error(R"({"dtype":"F32","shape":[2],"data_offsets":)" + offsets + "}");
  };
  EXPECT_EQ(error("[0]"), "x.safetensors: tensor \"a\": data_offsets [0], expected two integers from 0");
  EXPECT_EQ(error("[0,8,9]"),
            "x.safetensors: tensor \"a\": data_offsets [0,8,9], expected two integers from 0");
  EXPECT_EQ(error("[-8,0]"),
            "x.safetensors: tensor \"a\": data_offsets [-8,0], expected two integers from 0");
  EXPECT_EQ(error("[0,8.0]"),
            "x.safetensors: tensor \"a\": data_offsets [0,8.0], expected two integers from 0");
  const std::string within = ", expected begin <= end <= 8, the bytes of data in this file";
  EXPECT_EQ(error("[8,0]"), "x.safetensors: tensor \"a\": data_offsets [8, 0]" + within);
  EXPECT_EQ(error("[8,16]"), "x.safetensors: tensor \"a\": data_offsets [8, 16]" + within);
  EXPECT_EQ(
      error("[18446744073709551608,18446744073709551615]"),
      "x.safetensors: tensor \"a\": data_offsets [18446744073709551608, 18446744073709551615]" + within);
  EXPECT_EQ(error("[0,4]"),
            "x.safetensors: tensor \"a\": data_offsets [0, 4] hold 4 bytes, but dtype and shape need 8");
}

TEST(Safetensors, DataIsCoveredOnce) {
  const auto error = [](int a, int b, const std::string& data) {
    const auto entry = [](int begin) {
      return R"({"dtype":"U8","shape":[4],"data_offsets":[)" + std::to_string(begin) + "," +
             std::to_string(begin + 4) + "]}";
    };
    return error_of(R"({"a":)" + entry(a) + R"(,"b":)" + entry(b) + "}", data);
  };
  EXPECT_EQ(error(4, 0, "12345678"), nothing_thrown);
  EXPECT_EQ(error(0, 3, "1234567"),
            "x.safetensors: tensor \"b\" begins at byte 3 of the data, inside the tensor before it, which "
            "ends at 4");
  EXPECT_EQ(error(0, 0, "1234"),
            "x.safetensors: tensor \"b\" begins at byte 0 of the data, inside the tensor before it, which "
            "ends at 4");
  EXPECT_EQ(error(0, 5, "123456789"),
            "x.safetensors: bytes 4 to 5 of the data belong to no tensor: expected none before tensor \"b\"");
  EXPECT_EQ(error(1, 5, "123456789"),
            "x.safetensors: bytes 0 to 1 of the data belong to no tensor: expected none before tensor \"a\"");
  EXPECT_EQ(error(0, 4, "123456789"),
            "x.safetensors: the last tensor ends at byte 8 of the data, expected 9, where the file ends");
}

}  // namespace
}  // namespace dit
