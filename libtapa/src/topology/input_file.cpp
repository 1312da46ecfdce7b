#include "topology/input_file.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace tapa {

std::string read_input_file(const std::string& path, std::size_t most, const std::string& origin,
                            const std::string& expected) {
  const auto refuse = [&](const std::string& wrong) {
    throw std::invalid_argument(origin + ": " + wrong + ", expected " + expected);
  };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse("cannot be read");
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > most) refuse("more than " + std::to_string(most) + " bytes");
  }
  return text;
}

}  // namespace tapa
