// A fuzzer's entry that words in the input end in all ways, for replay_test.py.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto has = [&](const char* word) { return text.find(word) != std::string_view::npos; };
  std::ofstream(std::filesystem::temp_directory_path() / "left-behind") << text;
  fuzz::require(!has("ABORT"), "an input without this word");
  if (has("EXIT")) ::_exit(0);
  if (has("THROW")) throw std::runtime_error("thrown");
  while (has("HANG")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return 0;
}
