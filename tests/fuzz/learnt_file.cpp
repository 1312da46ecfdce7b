// Files of what was learnt: refused in words, or written as they were read, and joined with a run's results
// without surprise.
#include "autotune/learnt_file.hpp"

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const tapa::Learnt learnt = tapa::parse_learnt(std::string(fuzz::text_of(data, size)), "file");
    const std::string text = tapa::learnt_json(learnt);
    if (text.size() <= tapa::kMostLearntBytes)
      fuzz::require(tapa::parse_learnt(text, "written") == learnt, "written as it was read");
    tapa::Learnt run;
    for (tapa::LearntShape shape : learnt.shapes) {
      for (tapa::LearntSize& calls : shape.sizes) {
        const tapa::LearntStart start = tapa::start_from(calls);
        fuzz::require(
            start.kind != tapa::LearntStart::Kind::trial || start.plan == calls.plans.front().choice,
            "a trial is of the first plan");
        calls.day = 0;
      }
      tapa::add_to_run(run, shape);
    }
    const tapa::Learnt after = tapa::merged(learnt, run, 20000);
    const std::string joined = tapa::learnt_json(after);
    fuzz::require(joined.size() <= tapa::kMostLearntBytes, "what is kept is short enough");
    fuzz::require(tapa::parse_learnt(joined, "joined") == after, "what is kept can be read");
  } catch (const std::invalid_argument& error) {
    fuzz::require(std::string_view(error.what()).starts_with("cache "), "the error names the file");
  }
  return 0;
}
