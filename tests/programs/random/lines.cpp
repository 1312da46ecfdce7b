#include "lines.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace random_program {

const std::string& Line::word(const std::string& name) const {
  static const std::string none;
  const auto found = words.find(name);
  return found == words.end() ? none : found->second;
}

int Line::value(const std::string& name, int standard) const {
  const std::string& text = word(name);
  return text.empty() ? standard : std::stoi(text);
}

std::vector<std::string> Line::list(const std::string& name) const {
  std::vector<std::string> items;
  std::istringstream in(word(name));
  for (std::string item; std::getline(in, item, ',');) items.push_back(item);
  return items;
}

std::vector<int> Line::numbers(const std::string& name) const {
  std::vector<int> items;
  for (const std::string& item : list(name)) items.push_back(std::stoi(item));
  return items;
}

namespace {

Line read_line(const std::string& text) {
  Line line;
  std::istringstream in(text);
  in >> line.number >> line.thread >> line.verb;
  for (std::string word; in >> word;) {
    const std::size_t equals = word.find('=');
    line.words[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return line;
}

}  // namespace

Program read_program(const char* path) {
  std::ifstream in(path);
  Program program;
  std::string text;
  std::getline(in, text);
  program.header = read_line("0 0 " + text);
  program.threads.resize(
      static_cast<std::size_t>(std::clamp(program.header.value("threads", 1), 1, kMostThreads)));
  while (std::getline(in, text)) {
    if (text.empty() || text[0] == '#') continue;
    Line line = read_line(text);
    for (int t = 0; t < static_cast<int>(program.threads.size()); ++t) {
      if (line.thread < 0 || line.thread == t) program.threads[static_cast<std::size_t>(t)].push_back(line);
    }
  }
  return program;
}

}  // namespace random_program
