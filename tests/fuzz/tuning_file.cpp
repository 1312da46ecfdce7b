// Tuning files: refused in words, or written as they were read, and used by the cost model without surprise.
#include "autotune/tuning_file.hpp"

#include <cmath>

#include "fuzz.hpp"
#include "plan/cost.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const tapa::Tuning tuning = tapa::parse_tuning(std::string(fuzz::text_of(data, size)), "file");
    const std::string text = tapa::tuning_json(tuning);
    const tapa::Tuning again = tapa::parse_tuning(text, "written");
    fuzz::require(tapa::tuning_json(again) == text, "written as it was read");
    for (std::size_t i = 0; i < tuning.measurements.size(); ++i)
      fuzz::require(again.measurements[i].choice == tuning.measurements[i].choice,
                    "plans stay what they are");
    const tapa::Topology topology = tapa::make_uniform_topology({2, 2});
    const tapa::Rates rates = tapa::tuned_rates(tuning, topology, tapa::rates_from(topology));
    const double seconds = tapa::predict(topology, rates, tapa::parse_choice("tapa:split=node"), 64);
    fuzz::require(!std::isnan(seconds) && seconds >= 0, "a plan takes a time");
    (void)tapa::tuned_measurements(tuning, topology);
  } catch (const std::invalid_argument& error) {
    fuzz::require(std::string_view(error.what()).starts_with("tuning file "), "the error names the file");
  }
  return 0;
}
