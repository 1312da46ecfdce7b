#include "compare_fields.hpp"

#include <algorithm>
#include <stdexcept>

namespace dit::gray_scott {
namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Between any two fields of the class.
double spread_of(const at::Tensor& spectra) {
  std::vector<double> errors;
  for (std::int64_t i = 0; i < spectra.size(0); ++i) {
    for (std::int64_t j = 0; j < spectra.size(0); ++j) {
      if (i != j) {
        errors.push_back(spectrum_error(spectra.narrow(0, i, 1), spectra.narrow(0, j, 1)));
      }
    }
  }
  return median_of(errors);
}

std::vector<double> spreads_of(const FieldSet& simulated, const at::Tensor& spectra, std::int64_t classes) {
  std::vector<double> spreads;
  for (std::int64_t label = 0; label < classes; ++label) {
    const at::Tensor own = spectra.index_select(0, (simulated.labels == label).nonzero().flatten());
    if (own.size(0) < 3) {
      throw std::invalid_argument("class " + std::to_string(label) + " has " + std::to_string(own.size(0)) +
                                  " simulated fields: expected at least 3");
    }
    spreads.push_back(spread_of(own));
  }
  return spreads;
}

std::int64_t count_of(const at::Tensor& hits) {
  return hits.sum().item<std::int64_t>();
}

}  // namespace

FieldComparison compare_fields(const std::vector<WayFields>& ways, const at::Tensor& labels,
                               const FieldSet& simulated, std::int64_t classes) {
  if (ways.empty() || labels.size(0) == 0) {
    throw std::invalid_argument("no fields: expected those of at least one way");
  }
  if (labels.min().item<std::int64_t>() < 0 || labels.max().item<std::int64_t>() >= classes) {
    throw std::invalid_argument("labels: expected 0 to " + std::to_string(classes - 1));
  }
  for (const WayFields& way : ways) {
    if (way.fields.dim() != 4 || !way.fields.sizes().equals(ways[0].fields.sizes()) ||
        way.fields.size(0) != labels.size(0) || way.fields.size(3) != simulated.size()) {
      throw std::invalid_argument("fields of " + way.name + ": expected as many as there are classes, " +
                                  std::to_string(labels.size(0)) + ", and of the simulated ones' size, " +
                                  std::to_string(simulated.size()));
    }
  }
  const PerFieldStatistics taught = field_statistics(simulated.fields);
  const NearestRegime classifier(taught, simulated.labels, classes);
  const std::vector<double> spreads = spreads_of(simulated, taught.spectrum, classes);
  FieldComparison result;
  result.fields = labels.size(0);
  result.spread_median = median_of(spreads);
  const PerFieldStatistics first = field_statistics(ways[0].fields);
  const at::Tensor named_first = classifier.classify(first);
  for (const WayFields& way : ways) {
    const PerFieldStatistics own = field_statistics(way.fields);
    const at::Tensor named = classifier.classify(own);
    WayComparison compared;
    compared.name = way.name;
    std::vector<double> errors;
    for (std::int64_t i = 0; i < labels.size(0); ++i) {
      errors.push_back(spectrum_error(own.spectrum.narrow(0, i, 1), first.spectrum.narrow(0, i, 1)));
      const auto label = static_cast<std::size_t>(labels[i].item<std::int64_t>());
      compared.beyond_spread += errors.back() > spreads[label] ? 1 : 0;
    }
    compared.spectrum_median = median_of(errors);
    compared.spectrum_worst = *std::max_element(errors.begin(), errors.end());
    compared.named_right = count_of(named == labels);
    compared.named_as_first = count_of(named == named_first);
    result.ways.push_back(std::move(compared));
  }
  return result;
}

}  // namespace dit::gray_scott
