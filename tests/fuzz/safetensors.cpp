// safetensors files: refused in words, or entries that cover the data without holes and tensors that can be
// read whole. An input that begins with a brace is an index instead, beside the shards a.safetensors and
// b.safetensors.
#include "weights/safetensors.hpp"

#include <unistd.h>

#include <fstream>

#include "fuzz.hpp"
#include "weights/safetensors_header.hpp"

namespace {

namespace fs = std::filesystem;

void check_entries(const dit::SafetensorsHeader& header, std::size_t size) {
  std::uint64_t reached = 0;
  for (const dit::TensorEntry& entry : header.entries) {
    fuzz::require(entry.begin == reached && entry.end >= entry.begin,
                  "entries follow each other: " + entry.name);
    reached = entry.end;
    const dit::SafetensorsType* type = dit::safetensors_type(entry.dtype);
    fuzz::require(type != nullptr, "a type that is known: " + entry.dtype);
    std::uint64_t bytes = type->bytes;
    for (const std::int64_t length : entry.shape) bytes *= static_cast<std::uint64_t>(length);
    fuzz::require(bytes == entry.end - entry.begin, "as many bytes as the shape says: " + entry.name);
  }
  fuzz::require(header.data_offset + reached == size, "the data ends with the file");
}

void read_file(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  check_entries(dit::parse_safetensors_header({bytes, size}, "file"), size);
  const dit::SafetensorsFile file("file", bytes, size);
  unsigned sum = 0;
  for (const dit::TensorEntry& entry : file.entries()) {
    fuzz::require(file.contains(entry.name), "a file has what it lists");
    if (!dit::safetensors_type(entry.dtype)->scalar) continue;
    const at::Tensor tensor = file.tensor(entry.name);
    const auto* first = static_cast<const std::uint8_t*>(tensor.data_ptr());
    for (std::uint64_t i = 0; i < entry.end - entry.begin; ++i) sum += first[i];
  }
  volatile unsigned read = sum;  // every byte
  (void)read;
}

/// A folder with two shards, for one input: gone before the next one, however the process ends between them.
class Shards {
 public:
  Shards() : folder_(fs::temp_directory_path() / ("tapa-fuzz-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    dit::write_safetensors(folder_ / "a.safetensors", {{"x", at::ones({2, 3})}}, {});
    dit::write_safetensors(folder_ / "b.safetensors", {{"y", at::zeros({4})}}, {});
  }
  ~Shards() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;
  [[nodiscard]] fs::path with_index(std::string_view text) const {
    const fs::path path = folder_ / "model.safetensors.index.json";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  fs::path folder_;
};

void read_index(std::string_view text) {
  const Shards shards;
  try {
    const dit::TensorMap tensors = dit::read_checkpoint(shards.with_index(text));
    for (const auto& [name, tensor] : tensors)
      fuzz::require(name == "x" || name == "y", "a tensor of a shard");
  } catch (const std::runtime_error& error) {
    fuzz::require_words(error);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (text.starts_with("{")) {
    read_index(text);
    return 0;
  }
  try {
    read_file(data, size);
  } catch (const std::runtime_error& error) {  // also of a tensor: truths that are neither 0 nor 1
    fuzz::require(std::string_view(error.what()).starts_with("file"), "the error names the file");
  }
  return 0;
}
