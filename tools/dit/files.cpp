#include "files.hpp"

#include <iostream>
#include <stdexcept>

#include "files/output_file.hpp"
#include "signals_held.hpp"

namespace dit::tool {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::filesystem::path& path,
                         const std::string& why) {
  throw std::invalid_argument(option + " " + path.string() + ": " + why);
}

void require_writable(const Output& output) {
  const auto& [option, path, kind] = output;
  if (path == "-") {
    if (kind != FileKind::text)
      refuse(option, path, "only text goes to the standard output, expected a file");
    return;
  }
  if (std::filesystem::is_directory(path)) refuse(option, path, "is a folder, expected a file");
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder)) refuse(option, path, "there is no folder " + folder.string());
  if (kind == FileKind::picture && path.has_extension() && path.extension() != ".png")
    refuse(option, path, "a PNG is written, expected a name that ends in .png");
  const tapa::SignalsHeld held;
  try {
    files::check_writable(path);
  } catch (const std::runtime_error& error) {
    throw std::invalid_argument(option + " " + error.what());
  }
}

}  // namespace

void require_outputs(const std::vector<Output>& outputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty()) continue;
    require_writable(*output);
    for (auto other = outputs.begin(); other != output; ++other) {
      if (other->path.lexically_normal() == output->path.lexically_normal())
        refuse(output->option, output->path,
               "is the file of " + other->option + " too, expected another one");
    }
  }
}

void require_folder(const std::string& option, const std::filesystem::path& path) {
  if (path.empty()) return;
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (!std::filesystem::is_directory(path))
    refuse(option, path,
           "expected a folder, or a place for a new one" + (problem ? " (" + problem.message() + ")" : ""));
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return;
  }
  const tapa::SignalsHeld held;
  files::write_file(path, [&](std::ostream& out) { out << text; });
}

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  write_text(path, json.dump(2) + "\n");
}

}  // namespace dit::tool
