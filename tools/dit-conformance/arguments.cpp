// Wrong arguments of the functions other than start.
#include <array>

#include "checks.hpp"
#include "refusal.hpp"

namespace dit::conformance {
namespace {

// All ranks pass the same wrong options, so it does not matter whether a plugin looks at them before or after
// it sends to its peers.
void open(ExchangeContext& context, Findings& findings) {
  const dit_exchange_plugin& table = context.plugin().table();
  const auto refused = [&](const std::string& what, const dit_open_options* options,
                           const std::string& argument) {
    dit_context* opened = nullptr;
    const dit_status status = table.open(options, &opened);
    expect_refusal(context, findings, what, status, argument);
    if (opened != nullptr) table.close(opened);
  };
  refused("open without options", nullptr, "options");
  refused("open with a struct_size of 4", std::array{dit_open_options{4, nullptr, 0, nullptr}}.data(),
          "struct_size");
  refused("open with a negative timeout",
          std::array{dit_open_options{sizeof(dit_open_options), nullptr, -1, nullptr}}.data(),
          "timeout_seconds");
  refused("open with an unknown setting",
          std::array{dit_open_options{sizeof(dit_open_options), nullptr, 0, "no_such_setting=1"}}.data(),
          "no_such_setting");
  const dit_open_options options{sizeof(dit_open_options), nullptr, 0, nullptr};
  expect_refusal(context, findings, "open without a place for the context", table.open(&options, nullptr),
                 "context");
}

void null_pointers(ExchangeContext& context, Findings& findings) {
  const dit_exchange_plugin& table = context.plugin().table();
  int done = 0;
  dit_request* request = nullptr;
  expect_refusal(context, findings, "wait without a request pointer", table.wait(context.handle(), nullptr),
                 "request");
  expect_refusal(context, findings, "test without a request pointer",
                 table.test(context.handle(), nullptr, &done), "request");
  expect_refusal(context, findings, "test without an answer", table.test(context.handle(), &request, nullptr),
                 "done");
  expect_refusal(context, findings, "totals without a place", table.totals(context.handle(), nullptr),
                 "totals");
  expect_refusal(context, findings, "split without a place", table.split(context.handle(), 0, 0, nullptr),
                 "result");
  dit_exchange_totals totals{};
  totals.struct_size = 2;
  expect_refusal(context, findings, "totals with a struct_size of 2", table.totals(context.handle(), &totals),
                 "struct_size");
}

void nothing_to_do(ExchangeContext& context, Findings& findings) {
  const dit_exchange_plugin& table = context.plugin().table();
  dit_request* request = nullptr;
  int done = 0;
  findings.expect(table.wait(context.handle(), &request) == DIT_OK, "wait for a null request failed");
  findings.expect(table.test(context.handle(), &request, &done) == DIT_OK && done == 1,
                  "a null request is not done");
  findings.expect(table.close(nullptr) == DIT_OK, "close of a null context failed");
  findings.expect(table.last_error(nullptr) != nullptr, "last_error of a null context is null");
}

}  // namespace

std::vector<Check> argument_checks() {
  return {{"arguments: open", open},
          {"arguments: null pointers", null_pointers},
          {"arguments: nothing to wait for, nothing to close", nothing_to_do}};
}

}  // namespace dit::conformance
