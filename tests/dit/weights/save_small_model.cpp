// save_small_model FOLDER: the model that embedded_model_test wants to find in itself.
#include <iostream>

#include "small_model.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: dit_save_small_model FOLDER\n";
    return 2;
  }
  dit::save_model(argv[1], dit::small_model_config(), dit::small_model_weights(at::kBFloat16), {});
  return 0;
}
