// read_tuning FILE RANKS SIZE...: reads a tuning file as the library does and checks that it says something
// about each size. Exit code 1 when it does not.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "autotune/tuning_file.hpp"

int main(int argc, char** argv) {
  try {
    std::ifstream file(argv[1], std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const tapa::Tuning tuning = tapa::parse_tuning(text, argv[1]);
    if (tuning.ranks != std::atoi(argv[2])) {
      throw std::runtime_error("it is for another number of ranks");
    }
    for (int i = 3; i < argc; ++i) {
      const auto bytes = static_cast<std::size_t>(std::atol(argv[i]));
      const auto timed = std::count_if(tuning.measurements.begin(), tuning.measurements.end(),
                                       [&](const tapa::Measurement& m) { return m.bytes == bytes; });
      if (timed < 2) {
        throw std::runtime_error("fewer than two plans were timed at " + std::string(argv[i]) + " bytes");
      }
    }
    std::printf("%s: %zu levels, %zu measurements\n", argv[1], tuning.levels.size(),
                tuning.measurements.size());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
}
