/// What benchmarks write for --json, printed as to any FILE.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "write_file.hpp"

namespace tapa::bench {

/// The file is there whole or not at all; throws std::invalid_argument that names it.
inline void write_json_file(const std::string& path, const std::function<void(std::FILE*)>& print) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const memory = open_memstream(&text, &size);
  if (memory == nullptr) throw std::bad_alloc();
  print(memory);
  const bool whole = std::fclose(memory) == 0;
  const std::string copy(whole ? text : "", whole ? size : 0);
  std::free(text);
  if (!whole) throw std::bad_alloc();
  write_file("--json", path, copy);
}

}  // namespace tapa::bench
