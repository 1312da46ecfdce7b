/// safetensors files: reading by memory map, writing. Files are untrusted input: every length, offset,
/// overlap, dtype and shape is checked before use.
///
/// Format: u64 little-endian header length; JSON {name: {dtype, shape, data_offsets}}, optional __metadata__
/// of strings; then the bytes. Offsets count from the end of the header.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/tensor_map.hpp"

namespace dit {

/// One tensor's entry.
struct TensorEntry {
  std::string name;
  std::string dtype;  ///< as in the file: F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 I16 I8 U8 BOOL
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< bytes from the start of the data
  std::uint64_t end = 0;
};

/// One file, mapped. Tensors borrow the mapping and keep it alive. Errors: std::runtime_error that names
/// file, tensor, value and what was expected.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  /// Bytes in memory (an embedded file), which must outlive the object and its tensors.
  SafetensorsFile(std::string name, const std::byte* data, std::size_t size);

  [[nodiscard]] const std::vector<TensorEntry>& entries() const;  ///< by offset
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;
  [[nodiscard]] bool contains(const std::string& name) const;
  /// Read-only by convention; unknown to this libtorch (F8 on old ones): an error that says so.
  [[nodiscard]] at::Tensor tensor(const std::string& name) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// All tensors of a checkpoint: one file, or an index (NAME.safetensors.index.json) with its shards, all in
/// the index's folder; a shard that is missing, a tensor in no shard or in two is an error.
[[nodiscard]] TensorMap read_checkpoint(const std::filesystem::path& path);

/// Writes atomically (a temporary file, then rename). Tensors are written as they are typed.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace dit
