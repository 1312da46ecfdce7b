// dit: images from diffusion transformers, on one rank or many; training of the model that the library holds.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <stdexcept>

#include "train.hpp"

int main(int argc, char** argv) {
  constexpr int failed = 1;
  constexpr int bad_input = 2;
  CLI::App app("images from diffusion transformers", "dit");
  app.require_subcommand(1);
  dit::add_train_command(app);
  dit::add_evaluate_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : bad_input;
  } catch (const std::invalid_argument& error) {
    std::cerr << "dit: " << error.what() << "\n";
    return bad_input;
  } catch (const std::exception& error) {
    std::cerr << "dit: " << error.what() << "\n";
    return failed;
  }
  return 0;
}
