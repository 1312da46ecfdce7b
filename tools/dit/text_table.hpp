/// @file
/// Columns of text: the first one to the left, the others to the right.
#pragma once

#include <string>
#include <vector>

namespace dit::tool {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace dit::tool
