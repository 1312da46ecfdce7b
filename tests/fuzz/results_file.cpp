// Files of results of earlier runs: refused in words, or written as they were read, and joined with a run's
// results without surprise.
#include "autotune/results_file.hpp"

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const tapa::Results results = tapa::parse_results(std::string(fuzz::text_of(data, size)), "file");
    const std::string text = tapa::results_json(results);
    if (text.size() <= tapa::kMostResultsBytes)
      fuzz::require(tapa::parse_results(text, "written") == results, "written as it was read");
    tapa::Results run;
    for (tapa::ShapeResults shape : results.shapes) {
      for (tapa::SizeResult& calls : shape.sizes) {
        fuzz::require(tapa::start_from(calls) != tapa::ResultsStart::trial ||
                          calls.plans.front().choice.algorithm != tapa::Algorithm::mpi,
                      "a trial is of another plan than MPI");
        calls.day = 0;
      }
      tapa::add_to_run(run, shape);
    }
    const tapa::Results after = tapa::merged(results, run, 20000);
    const std::string joined = tapa::results_json(after);
    if (joined.size() <= tapa::kMostResultsBytes)
      fuzz::require(tapa::parse_results(joined, "joined") == after, "what is kept can be read");
  } catch (const std::invalid_argument& error) {
    fuzz::require(std::string_view(error.what()).starts_with("cache "), "the error names the file");
  }
  return 0;
}
