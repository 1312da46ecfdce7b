// dit inspect: what a checkpoint, a model's folder or a picture holds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "commands.hpp"
#include "files.hpp"
#include "profile/image.hpp"
#include "quantity.hpp"
#include "text_table.hpp"
#include "weights/embedded_model.hpp"
#include "weights/model_files.hpp"
#include "weights/safetensors.hpp"

namespace dit::tool {

namespace {

using nlohmann::ordered_json;

struct Contents {
  std::string name;
  std::optional<std::string> config;  ///< a model's config.json, as text
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string> text;  ///< metadata, or a picture's text
  std::string size;                         ///< of a picture
};

Contents of_file(const SafetensorsFile& file, const std::string& name) {
  return {name, std::nullopt, file.entries(), file.metadata(), ""};
}

/// Tensors of several shards, one after the other by name.
Contents of_index(const std::filesystem::path& path) {
  Contents contents;
  contents.name = path.string();
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : read_checkpoint(path)) {
    const std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(tensor.nbytes());
    contents.tensors.push_back({name, at::toString(tensor.scalar_type()), tensor.sizes().vec(), begin, end});
  }
  return contents;
}

Contents of_folder(const std::filesystem::path& folder) {
  const std::filesystem::path whole = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  const LoadedModel model = load_model(folder);  // refuses what does not belong together
  Contents contents = std::filesystem::exists(whole) ? of_file(SafetensorsFile(whole), "") : of_index(index);
  contents.name = folder.string();
  contents.config = to_json(model.config);
  return contents;
}

Contents of_embedded() {
  const LoadedModel model = load_model("");
  const auto bytes = embedded_model()->weights;
  Contents contents =
      of_file(SafetensorsFile("embedded model.safetensors", bytes.data(), bytes.size()), "embedded model");
  contents.config = to_json(model.config);
  return contents;
}

Contents of_picture(const std::string& path) {
  const PngFile file = read_png(path);
  return {path,
          std::nullopt,
          {},
          file.text,
          std::to_string(file.image.width) + "x" + std::to_string(file.image.height)};
}

Contents look_into(const std::string& path) {
  if (path.empty()) return of_embedded();
  if (!std::filesystem::exists(path)) {
    throw std::invalid_argument(path +
                                ": there is no such file or folder, expected a model, a checkpoint or a PNG");
  }
  if (std::filesystem::is_directory(path)) return of_folder(path);
  if (path.ends_with(".png")) return of_picture(path);
  if (path.ends_with(".index.json")) return of_index(path);
  return of_file(SafetensorsFile(path), path);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto side : shape) text += (text.empty() ? "" : " x ") + std::to_string(side);
  return text.empty() ? "one" : text;
}

struct Totals {
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
};

Totals totals(const Contents& contents) {
  Totals sum;
  for (const TensorEntry& entry : contents.tensors) {
    std::uint64_t elements = 1;
    for (const auto side : entry.shape) elements *= static_cast<std::uint64_t>(side);
    sum.elements += elements;
    sum.bytes += entry.end - entry.begin;
  }
  return sum;
}

void print_text(const Contents& contents) {
  std::cout << contents.name << (contents.size.empty() ? "" : ": " + contents.size + " pixels") << "\n";
  for (const auto& [key, value] : contents.text) std::cout << "  " << key << ": " << value << "\n";
  if (contents.config) std::cout << "\nconfig.json\n" << *contents.config;
  if (contents.size.empty()) {
    TextTable table({"tensor", "type", "shape", "bytes"});
    for (const TensorEntry& entry : contents.tensors) {
      table.add({entry.name, entry.dtype, shape_text(entry.shape), std::to_string(entry.end - entry.begin)});
    }
    const Totals sum = totals(contents);
    std::cout << "\n"
              << table.text() << "\n"
              << contents.tensors.size() << " tensors, " << sum.elements << " elements, "
              << bytes_text(static_cast<double>(sum.bytes)) << "\n";
  }
  std::cout << std::flush;
}

void print_json(const Contents& contents) {
  ordered_json json;
  json["name"] = contents.name;
  json["text"] = contents.text;
  if (contents.config) json["config"] = ordered_json::parse(*contents.config);
  if (!contents.size.empty()) json["size"] = contents.size;
  json["tensors"] = ordered_json::array();
  for (const TensorEntry& entry : contents.tensors) {
    json["tensors"].push_back({{"name", entry.name},
                               {"dtype", entry.dtype},
                               {"shape", entry.shape},
                               {"bytes", entry.end - entry.begin}});
  }
  const Totals sum = totals(contents);
  json["elements"] = sum.elements;
  json["bytes"] = sum.bytes;
  std::cout << json.dump(2) << std::endl;
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  struct Words {
    std::string path;
    bool json = false;
  };
  CLI::App* command = app.add_subcommand("inspect", "What a checkpoint, a model's folder or a PNG holds.");
  const auto words = std::make_shared<Words>();
  command->add_option(
      "file", words->path,
      "safetensors file, its index, a folder with config.json, or a PNG; default: the embedded model");
  command->add_flag("--json", words->json, "JSON");
  command->callback([words] {
    const Contents contents = look_into(words->path);
    words->json ? print_json(contents) : print_text(contents);
  });
}

}  // namespace dit::tool
