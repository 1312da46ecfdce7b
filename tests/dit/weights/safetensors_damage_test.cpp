// Damaged files: every cut, every changed byte. Whatever is accepted must be readable to its last byte (run
// with a sanitizer to see reads beyond the end).
#include <gtest/gtest.h>

#include <random>

#include "../test_folder.hpp"
#include "bytes.hpp"
#include "weights/safetensors.hpp"

namespace dit {
namespace {

std::string whole_file() {
  return safetensors_bytes(
      R"({"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},"t":{"dtype":"BOOL","shape":[2],"data_offsets":[22,24]}})",
      std::string(22, '\x3f') + std::string("\x01\x00", 2));
}

/// Reads all that there is; true when nothing was refused.
bool read(const std::string& text) {
  const std::vector<std::byte> exact(reinterpret_cast<const std::byte*>(text.data()),
                                     reinterpret_cast<const std::byte*>(text.data()) + text.size());
  try {
    const SafetensorsFile file("damaged", exact.data(), exact.size());
    for (const TensorEntry& entry : file.entries()) {
      static_cast<void>(file.tensor(entry.name).to(at::kDouble).sum().item<double>());
    }
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 7), "damaged");
    return false;
  }
  return true;
}

TEST(DamagedSafetensors, WholeFileIsRead) {
  EXPECT_TRUE(read(whole_file()));
}

TEST(DamagedSafetensors, EveryCutIsNoticed) {
  const std::string whole = whole_file();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(read(whole.substr(0, length))) << length;
  }
  EXPECT_FALSE(read(whole + '\0'));
}

TEST(DamagedSafetensors, ChangedBytesAreRefusedOrHarmless) {
  const std::string whole = whole_file();
  const std::string other = std::string("\x00\x01\x09 0159-.e\"[]{},:\\\x7f\x80\xff", 23);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char value : other) {
      std::string changed = whole;
      changed[at] = value;
      refused += read(changed) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, whole.size() * other.size() / 2);
}

TEST(DamagedSafetensors, RemovedDoubledAndMixedBytes) {
  const std::string whole = whole_file();
  std::mt19937 random(1);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    static_cast<void>(read(changed.erase(at, 1 + random() % 4)));
    changed = whole;
    static_cast<void>(read(changed.insert(at, whole.substr(random() % whole.size(), 1 + random() % 8))));
    changed = whole;
    for (int i = 0; i < 3; ++i) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    static_cast<void>(read(changed));
  }
}

}  // namespace
}  // namespace dit
