/// Calls that a plugin must refuse.
#pragma once

#include <string>

#include "exchange/exchange.hpp"
#include "findings.hpp"

namespace dit::conformance {

/// `status` must be `expected`, with words that name `argument`. `what` says what was wrong.
inline void expect_refusal(const ExchangeContext& context, Findings& findings, const std::string& what,
                           dit_status status, const std::string& argument,
                           dit_status expected = DIT_ERROR_ARGUMENT) {
  if (status != expected) {
    findings.problem(what + ": status " + std::to_string(status) + ", expected " + std::to_string(expected));
    return;
  }
  const char* given = context.plugin().table().last_error(context.handle());
  const std::string words = given == nullptr ? "" : given;
  findings.expect(words.find(argument) != std::string::npos,
                  what + ": the words do not name " + argument + ": '" + words + "'");
}

}  // namespace dit::conformance
