/// @file
/// The report at finalize as JSON. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/report.hpp"
#include "report/report_text.hpp"

namespace tapa {

/// What format_report() says, as one line. Empty when there is nothing to say.
[[nodiscard]] std::string report_json(const std::vector<ReportRow>& rows,
                                      const std::optional<ReportHead>& head);

}  // namespace tapa
