#include "commands.hpp"

int main(int argc, char** argv) {
  return dit::gray_scott::run(argc, argv);
}
