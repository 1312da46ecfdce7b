// The conformance checks find what is wrong with plugins: the local one, with a function that lies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "checks.hpp"
#include "exchange/local/local_ranks.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

using testing::Contains;
using testing::IsEmpty;

const dit_exchange_plugin& right() {
  return *dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
}

/// Names of those checks that two ranks, each a node, fail with a table that differs from the local plugin's.
std::vector<std::string> failed_checks(const std::vector<conformance::Check>& checks,
                                       const std::function<void(dit_exchange_plugin&)>& spoil) {
  static dit_exchange_plugin table;  // an entry function has no argument for it
  table = right();
  spoil(table);
  const ExchangePlugin plugin =
      ExchangePlugin::linked([](uint32_t) -> const dit_exchange_plugin* { return &table; });
  std::vector<dit_local_member> members = make_local_group({2, 1, 0, 5});
  std::vector<std::string> failed;
  // The outer ranks are only the threads.
  run_local_ranks({2}, [&](ExchangeContext& thread) {
    ExchangeContext context(plugin, {&members[static_cast<std::size_t>(thread.rank())], 5, ""});
    for (const conformance::Check& check : checks) {
      const conformance::Result result = run_check(check, context);
      if (!result.passed() && thread.rank() == 0) failed.push_back(result.name);
    }
  });
  return failed;
}

TEST(SpoiledPlugin, NothingSpoiled) {
  EXPECT_THAT(failed_checks(conformance::all_checks(), [](dit_exchange_plugin&) {}), IsEmpty());
}

TEST(SpoiledPlugin, SendsAllRowsOfKnownSelections) {
  const auto failed = failed_checks(conformance::selection_checks(), [](dit_exchange_plugin& table) {
    table.start = [](dit_context* context, const dit_exchange_call* call, dit_request** request) {
      if (call == nullptr) return right().start(context, call, request);
      dit_exchange_call whole = *call;
      if (call->selection != nullptr && call->selection->id != 0) whole.selection = nullptr;
      return right().start(context, &whole, request);
    };
  });
  EXPECT_THAT(failed, Contains("rows: ids are reused"));
}

TEST(SpoiledPlugin, IgnoresTheBlockingFlag) {
  EXPECT_THAT(failed_checks(conformance::plain_checks(),
                            [](dit_exchange_plugin& table) {
                              table.start = [](dit_context* context, const dit_exchange_call* call,
                                               dit_request** request) {
                                if (call == nullptr) return right().start(context, call, request);
                                dit_exchange_call changed = *call;
                                changed.flags &= ~DIT_EXCHANGE_BLOCKING;
                                return right().start(context, &changed, request);
                              };
                            }),
              Contains("plain: blocking flag"));
}

TEST(SpoiledPlugin, WritesBetweenBlocks) {
  EXPECT_THAT(failed_checks(conformance::plain_checks(),
                            [](dit_exchange_plugin& table) {
                              table.start = [](dit_context* context, const dit_exchange_call* call,
                                               dit_request** request) {
                                const dit_status status = right().start(context, call, request);
                                if (status == DIT_OK && call->label != nullptr &&
                                    std::string_view(call->label) == "conformance")
                                  static_cast<std::byte*>(call->recv)[call->recv_blocks[0].offset - 1] =
                                      std::byte{0};
                                return status;
                              };
                            }),
              Contains("plain: only oneself"));
}

TEST(SpoiledPlugin, ReleasesTwice) {
  EXPECT_THAT(failed_checks(conformance::channel_checks(),
                            [](dit_exchange_plugin& table) {
                              table.cancel = [](dit_context* context, dit_request** request,
                                                dit_release release, void* user) {
                                if (*request != nullptr) release(user);
                                return right().cancel(context, request, release, user);
                              };
                            }),
              Contains("cancel: releases once"));
}

TEST(SpoiledPlugin, ReadsWhatOldCallersDoNotHave) {
  EXPECT_THAT(
      failed_checks(conformance::call_checks(),
                    [](dit_exchange_plugin& table) {
                      table.start = [](dit_context* context, const dit_exchange_call* call,
                                       dit_request** request) {
                        if (call != nullptr && call->struct_size == first_call_bytes && call->channel != 0)
                          return DIT_ERROR_ARGUMENT;
                        return right().start(context, call, request);
                      };
                    }),
      Contains("calls of an older interface"));
}

TEST(SpoiledPlugin, LevelsAreNotSymmetric) {
  EXPECT_THAT(failed_checks(conformance::group_checks(),
                            [](dit_exchange_plugin& table) {
                              table.level_of = [](const dit_context* context, int peer) {
                                return right().rank(context) == 0 ? 0 : right().level_of(context, peer);
                              };
                            }),
              Contains("group: levels of peers"));
}

TEST(SpoiledPlugin, SlowLevelDiffersBetweenRanks) {
  EXPECT_THAT(failed_checks(conformance::group_checks(),
                            [](dit_exchange_plugin& table) {
                              table.slow_level = [](const dit_context* context) {
                                return right().rank(context);
                              };
                            }),
              Contains("group: level names"));
}

TEST(SpoiledPlugin, SplitIgnoresKeys) {
  EXPECT_THAT(failed_checks(conformance::group_checks(),
                            [](dit_exchange_plugin& table) {
                              table.split = [](dit_context* context, int colour, int, dit_context** result) {
                                return right().split(context, colour < 0 || colour == 0 ? colour : 1,
                                                     right().rank(context), result);
                              };
                            }),
              Contains("split: halves in reverse order"));
}

TEST(SpoiledPlugin, CountsWhatItSendsToItself) {
  EXPECT_THAT(failed_checks(conformance::group_checks(),
                            [](dit_exchange_plugin& table) {
                              table.totals = [](const dit_context* context, dit_exchange_totals* totals) {
                                const dit_status status = right().totals(context, totals);
                                if (status == DIT_OK) totals->sent_bytes[0] += 8 * totals->exchanges;
                                return status;
                              };
                            }),
              Contains("totals"));
}

TEST(SpoiledPlugin, DescribePastTheEnd) {
  EXPECT_THAT(failed_checks(conformance::group_checks(),
                            [](dit_exchange_plugin& table) {
                              table.describe = [](const dit_context* context, char* text, size_t bytes) {
                                const size_t length = right().describe(context, text, bytes);
                                if (bytes == 4) text[bytes] = 'x';
                                return length;
                              };
                            }),
              Contains("describe"));
}

TEST(SpoiledPlugin, ErrorsWithoutWords) {
  const auto failed = failed_checks(conformance::argument_checks(), [](dit_exchange_plugin& table) {
    table.last_error = [](const dit_context*) { return "something is wrong"; };
  });
  EXPECT_THAT(failed, Contains("arguments: null pointers"));
  EXPECT_THAT(failed, Contains("arguments: open"));
}

TEST(SpoiledPlugin, TakesAnyStructSize) {
  EXPECT_THAT(failed_checks(conformance::argument_checks(),
                            [](dit_exchange_plugin& table) {
                              table.totals = [](const dit_context* context, dit_exchange_totals* totals) {
                                dit_exchange_totals all{};
                                all.struct_size = sizeof(all);
                                if (totals == nullptr) return right().totals(context, totals);
                                const dit_status status = right().totals(context, &all);
                                if (totals->struct_size >= sizeof(all)) *totals = all;
                                return status;
                              };
                            }),
              Contains("arguments: null pointers"));
}

// After these nothing can be agreed on: the checks end with the words of the one that failed.
TEST(SpoiledPlugin, HasOneChannelForAll) {
  try {
    failed_checks(conformance::channel_checks(), [](dit_exchange_plugin& table) {
      table.start = [](dit_context* context, const dit_exchange_call* call, dit_request** request) {
        dit_exchange_call changed = *call;
        changed.channel = 0;
        return right().start(context, &changed, request);
      };
    });
    FAIL() << "all checks went through";
  } catch (const ExchangeError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("channels: each rank has its own order: "));
  }
}

TEST(SpoiledPlugin, StartsWhatItShouldRefuse) {
  try {
    failed_checks(conformance::call_checks(), [](dit_exchange_plugin& table) {
      table.start = [](dit_context* context, const dit_exchange_call* call, dit_request** request) {
        if (call == nullptr) return right().start(context, call, request);
        dit_exchange_call changed = *call;
        changed.flags &= DIT_EXCHANGE_BLOCKING;
        return right().start(context, &changed, request);
      };
    });
    FAIL() << "all checks went through";
  } catch (const ExchangeError& error) {
    EXPECT_STREQ(error.what(), "wrong calls: fields: unknown flag: the exchange was started");
  }
}

}  // namespace
}  // namespace dit
