#include "files.hpp"

#include <unistd.h>

#include <iostream>
#include <stdexcept>

#include "weights/atomic_file.hpp"

namespace dit::tool {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

void require_writable(const std::string& option, const std::filesystem::path& path) {
  if (path.empty() || path == "-") return;
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(option + " " + path.string() + ": " + why);
  };
  if (std::filesystem::is_directory(path)) refuse("is a folder, expected a file");
  const std::filesystem::path folder = folder_of(path);
  if (!std::filesystem::is_directory(folder)) refuse("there is no folder " + folder.string());
  if (access(folder.c_str(), W_OK) != 0) refuse("the folder " + folder.string() + " cannot be written to");
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return;
  }
  write_atomically(path, [&](std::ostream& out) { out << text; });
}

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  write_text(path, json.dump(2) + "\n");
}

}  // namespace dit::tool
