/// An exchange plugin of one rank that moves nothing, takes a given time, and writes down what is asked of
/// it.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "exchange/exchange.hpp"

namespace dit::test {

struct FakeWorld {
  std::chrono::milliseconds duration{0};  ///< of every exchange, side by side
  std::string fails_at;                   ///< label of an exchange whose wait fails
  std::vector<std::string> log;           ///< "start LABEL", "blocking LABEL", "wait LABEL"
};

}  // namespace dit::test

struct dit_context {
  dit::test::FakeWorld* world;
};

struct dit_request {
  std::string label;
  std::chrono::steady_clock::time_point complete;
};

namespace dit::test {

inline dit_status fake_start(dit_context* context, const dit_exchange_call* call, dit_request** request) {
  const bool blocking = (call->flags & DIT_EXCHANGE_BLOCKING) != 0;
  context->world->log.push_back((blocking ? "blocking " : "start ") + std::string(call->label));
  *request = new dit_request{call->label, std::chrono::steady_clock::now() + context->world->duration};
  return DIT_OK;
}

inline dit_status fake_wait(dit_context* context, dit_request** request) {
  std::this_thread::sleep_until((*request)->complete);
  const std::string label = (*request)->label;
  delete *request;
  *request = nullptr;
  context->world->log.push_back("wait " + label);
  return label == context->world->fails_at ? DIT_ERROR_COMMUNICATION : DIT_OK;
}

inline const dit_exchange_plugin* fake_plugin(std::uint32_t /*wanted*/) {
  static const dit_exchange_plugin table = [] {
    dit_exchange_plugin fake{};
    fake.struct_size = sizeof(fake);
    fake.version = DIT_EXCHANGE_VERSION;
    fake.name = "fake";
    fake.description = "moves nothing";
    fake.open = [](const dit_open_options* options, dit_context** context) {
      *context = new dit_context{static_cast<FakeWorld*>(options->communicator)};
      return DIT_OK;
    };
    fake.close = [](dit_context* context) {
      delete context;
      return DIT_OK;
    };
    fake.rank = [](const dit_context*) { return 0; };
    fake.size = fake.level_count = fake.slow_level = [](const dit_context*) { return 1; };
    fake.level_name = [](const dit_context*, int) { return "world"; };
    fake.level_of = [](const dit_context*, int) { return 0; };
    fake.start = fake_start;
    fake.test = [](dit_context*, dit_request**, int* done) {
      *done = 0;
      return DIT_OK;
    };
    fake.wait = fake_wait;
    fake.split = [](dit_context*, int, int, dit_context**) { return DIT_ERROR_UNSUPPORTED; };
    fake.totals = [](const dit_context*, dit_exchange_totals*) { return DIT_ERROR_UNSUPPORTED; };
    fake.describe = [](const dit_context*, char*, std::size_t) { return std::size_t{0}; };
    fake.last_error = [](const dit_context*) { return "the link is down"; };
    fake.abort_job = [](dit_context*, int) {};
    return fake;
  }();
  return &table;
}

inline ExchangeContext open_fake(FakeWorld& world) {
  ExchangeContext::Options options;
  options.communicator = &world;
  return ExchangeContext(ExchangePlugin::linked(fake_plugin), options);
}

}  // namespace dit::test
