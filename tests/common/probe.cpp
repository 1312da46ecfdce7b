// A library that says where it lies and where it was loaded.
#include "files/paths.hpp"

extern "C" __attribute__((visibility("default"))) const char* own_folder() {
  return files::library_folder().c_str();
}

extern "C" __attribute__((visibility("default"))) const char* first_folder() {
  static const std::filesystem::path folder = files::from_first_folder("");
  return folder.c_str();
}

extern "C" __attribute__((visibility("default"))) const char* relative() {
  static const std::filesystem::path path = files::from_first_folder("a");
  return path.c_str();
}
