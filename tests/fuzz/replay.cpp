// Runs a fuzzer's entry without libFuzzer: over committed inputs, and over inputs made from them.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.hpp"
#include "mutate.hpp"
#include "watched_child.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "usage: %s FOLDER|FILE [options]\n"
    "  FOLDER            every input in it, then inputs made from them; FILE: this input alone, in this "
    "process\n"
    "  --runs N          so many inputs are made\n"
    "  --seconds S       inputs are made for S seconds, or until there are --runs of them\n"
    "  --seed N          others for each seed (1)\n"
    "  --dictionary FILE words that are put in, as libFuzzer has them\n"
    "  --limit S         what takes longer for one input is a failure (10)\n"
    "  --found PREFIX    an input that ends the program becomes the file PREFIXseed-S-run-N (found-)\n"
    "  --write N FILE    only writes the input of run N\n";

struct Options {
  fs::path inputs;
  std::optional<std::uint64_t> runs;
  std::optional<std::uint64_t> seconds;
  std::uint64_t seed = 1;
  fs::path dictionary;
  std::uint64_t limit = 10;
  std::string found = "found-";
  std::optional<std::uint64_t> write_run;
  fs::path write_to;
};

std::uint64_t number_of(const std::string& option, std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number > 1'000'000'000'000)
    throw std::invalid_argument(option + " " + std::string(text) + ": expected a whole number");
  return number;
}

Options options_of(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == words.size()) throw std::invalid_argument(word + ": expected a value behind it");
      return words[++i];
    };
    if (word == "--runs") {
      options.runs = number_of(word, value());
    } else if (word == "--seconds") {
      options.seconds = number_of(word, value());
    } else if (word == "--seed") {
      options.seed = number_of(word, value());
    } else if (word == "--dictionary") {
      options.dictionary = value();
    } else if (word == "--limit") {
      options.limit = number_of(word, value());
    } else if (word == "--found") {
      options.found = value();
    } else if (word == "--write") {
      options.write_run = number_of(word, value());
      options.write_to = value();
    } else if (options.inputs.empty() && !word.starts_with("--")) {
      options.inputs = word;
    } else {
      throw std::invalid_argument(word + ": is none of the options");
    }
  }
  if (!fs::exists(options.inputs))
    throw std::invalid_argument("'" + options.inputs.string() + "': expected a folder of inputs, or one");
  return options;
}

fuzz::Input read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  if (!file) throw std::invalid_argument(path.string() + ": cannot be read");
  return {bytes.begin(), bytes.end()};
}

void write_file(const fs::path& path, const fuzz::Input& input) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  file.close();
  if (!file) throw std::invalid_argument(path.string() + ": cannot be written");
}

void run_entry(const fuzz::Input& made) noexcept {  // what it throws ends the program
  // Of its own size, so that a read beyond it is one beyond an allocation.
  const fuzz::Input input(made.begin(), made.end());
  (void)LLVMFuzzerTestOneInput(input.data(), input.size());
}

/// The folder's inputs in the order of their names, then those made from them.
class Inputs {
 public:
  explicit Inputs(const Options& options) : options_(options) {
    files_.assign(fs::directory_iterator(options.inputs), {});
    std::sort(files_.begin(), files_.end());
    for (const fs::path& path : files_) corpus_.push_back(read_file(path));
    if (options.dictionary.empty()) return;
    const fuzz::Input text = read_file(options.dictionary);
    words_ = fuzz::words_of(fuzz::text_of(text.data(), text.size()));
  }

  [[nodiscard]] std::uint64_t committed() const { return files_.size(); }
  [[nodiscard]] fuzz::Input made(std::uint64_t run) const {
    return fuzz::Mutator(corpus_, words_).make(options_.seed, run);
  }
  /// False when there are no more.
  [[nodiscard]] bool run(std::uint64_t number) const {
    if (number < committed()) {
      run_entry(corpus_[number]);
      return true;
    }
    const std::uint64_t run = number - committed();
    if (!options_.runs && !options_.seconds) return false;
    if (options_.runs && run >= *options_.runs) return false;
    if (options_.seconds && Clock::now() - begin_ >= std::chrono::seconds(*options_.seconds)) return false;
    run_entry(made(run));
    return true;
  }
  /// What to say of the input that ended the program; one that was made is written.
  [[nodiscard]] std::string keep(std::uint64_t number) const {
    if (number < committed()) return files_[number].string();
    const std::uint64_t run = number - committed();
    const std::string name =
        options_.found + "seed-" + std::to_string(options_.seed) + "-run-" + std::to_string(run);
    write_file(name, made(run));
    return "run " + std::to_string(run) + " of seed " + std::to_string(options_.seed) + ", written to " +
           name;
  }

 private:
  const Options& options_;
  std::vector<fs::path> files_;
  std::vector<fuzz::Input> corpus_, words_;
  Clock::time_point begin_ = Clock::now();
};

int replay(const Options& options) {
  if (!fs::is_directory(options.inputs)) {
    run_entry(read_file(options.inputs));
    std::printf("1 input\n");
    return 0;
  }
  const Inputs inputs(options);
  if (options.write_run) {
    write_file(options.write_to, inputs.made(*options.write_run));
    return 0;
  }
  const fuzz::Fate fate = fuzz::run_watched([&](std::uint64_t number) { return inputs.run(number); },
                                            std::chrono::seconds(options.limit));
  const std::uint64_t committed = std::min(fate.inputs, inputs.committed());
  std::printf("%llu inputs, and %llu made from them with seed %llu\n",
              static_cast<unsigned long long>(committed),
              static_cast<unsigned long long>(fate.inputs - committed),
              static_cast<unsigned long long>(options.seed));
  if (!fate.wrong.empty()) {
    const bool after = fate.after_all || fate.inputs == 0;
    std::fprintf(stderr, "%s: %s\n", fate.wrong.c_str(),
                 after ? "no single input" : inputs.keep(fate.inputs - 1).c_str());
  }
  return fate.wrong.empty() && inputs.committed() > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return replay(options_of({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    std::fprintf(stderr, kUsage, argv[0]);
    return 2;
  }
}
