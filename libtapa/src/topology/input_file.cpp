#include "topology/input_file.hpp"

#include <stdexcept>

#include "files/input_file.hpp"

namespace tapa {

std::string read_input_file(const std::string& path, std::size_t most, const std::string& origin,
                            const std::string& expected) {
  try {
    return files::read_text(path, most);
  } catch (const files::FileError& error) {
    throw std::invalid_argument(origin + ": cannot be read: " + error.what() + ", expected " + expected);
  }
}

}  // namespace tapa
