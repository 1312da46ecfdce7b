/// @file
/// Numbers and tables for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tapa {

/// "512 B", "1.5 KiB", "64 MiB": at most three digits and one decimal.
[[nodiscard]] std::string bytes_words(std::size_t bytes);

/// "250 ns", "12.3 us", "1.25 ms", "3.2 s".
[[nodiscard]] std::string seconds_words(double seconds);

/// Text in columns: words to the left, numbers to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  /// Precondition: as many cells as the header has.
  void add(std::vector<std::string> row);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tapa
