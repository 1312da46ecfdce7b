#include "checks.hpp"

namespace dit::conformance {

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (const auto& checks : {plain_checks(), group_checks(), selection_checks(), argument_checks(),
                             call_checks(), channel_checks(), strided_checks(), overlap_checks()})
    all.insert(all.end(), checks.begin(), checks.end());
  return all;
}

Result run_check(const Check& check, ExchangeContext& context) {
  Findings findings;
  try {
    check.run(context, findings);
  } catch (const ExchangeError& error) {
    findings.problem(error.what());
    // After these nothing can be agreed on any more.
    if (error.status() == DIT_ERROR_COMMUNICATION || error.status() == DIT_ERROR_TIMEOUT)
      throw ExchangeError(error.status(), check.name + ": " + error.what());
  }
  return {check.name, context.agree_on_error(findings.problem()), findings.note()};
}

}  // namespace dit::conformance
