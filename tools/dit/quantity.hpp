/// @file
/// Numbers with units on the command line: from words to values, and back for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dit::tool {

/// "2GiB", "512M", "4096": suffixes K, M, G, T, with or without B or iB, are powers of 1024. Throws
/// std::invalid_argument.
[[nodiscard]] std::uint64_t parse_bytes(const std::string& text);
/// "100mbit", "10gbit" (powers of 1000, as `tools/cluster` has them) or "1.5GB" -> bytes a second.
[[nodiscard]] double parse_rate(const std::string& text);
/// "20gflops", "1.5t", "2e10" -> floating-point operations a second.
[[nodiscard]] double parse_flops(const std::string& text);
/// "50us", "0.1ms", "1s" -> seconds.
[[nodiscard]] double parse_duration(const std::string& text);
/// "35dB" or "35", more than 0.
[[nodiscard]] double parse_decibels(const std::string& text);
/// The whole text is a number from `least` to `most`, else throws std::invalid_argument.
[[nodiscard]] std::int64_t parse_whole(const std::string& text, std::int64_t least, std::int64_t most);
[[nodiscard]] double parse_number(const std::string& text, double least, double most);

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};
/// "128" or "128x192": height x width, pixels.
[[nodiscard]] ImageSize parse_size(const std::string& text);

/// "a,b" -> words; an empty word is an error.
[[nodiscard]] std::vector<std::string> parse_words(const std::string& text);
/// "1,2,3" -> whole numbers from 1 to `most`, each once, in order.
[[nodiscard]] std::vector<int> parse_rank_counts(const std::string& text, int most);

/// "3.2 MiB", "640 B".
[[nodiscard]] std::string bytes_text(double bytes);
/// As few digits as give the same number again.
[[nodiscard]] std::string exact_text(double value);
/// "12.3": as many digits as three figures need.
[[nodiscard]] std::string figure(double value);
/// "1 step", "2 steps".
[[nodiscard]] std::string counted(std::int64_t number, const std::string& thing);

}  // namespace dit::tool
