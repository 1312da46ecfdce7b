// A program as text: a line for each step. random_programs writes it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace random_program {

constexpr int kMostThreads = 4;

struct Line {
  int number = 0;
  int thread = 0;  // -1: all, which wait for each other
  std::string verb;
  std::map<std::string, std::string> words;

  /// "" when there is no such word.
  [[nodiscard]] const std::string& word(const std::string& name) const;
  [[nodiscard]] int value(const std::string& name, int standard = 0) const;
  /// What stands between commas.
  [[nodiscard]] std::vector<std::string> list(const std::string& name) const;
  [[nodiscard]] std::vector<int> numbers(const std::string& name) const;
};

/// The first line, and those of each thread.
struct Program {
  Line header;
  std::vector<std::vector<Line>> threads;
};

Program read_program(const char* path);

}  // namespace random_program
