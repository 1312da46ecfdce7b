// What the host says of calls that failed.
#include "device/failure.hpp"

#include <gtest/gtest.h>

#include "device/device_error.hpp"

namespace tapa::device {
namespace {

constexpr int kNames[] = {0, 1, 2, 3};

void expect(const Failure& failure, int code, int rank, const char* text) {
  int named = -2;
  try {
    throw_failure(failure, kNames, 2.5, named);
    ADD_FAILURE() << "no error: " << text;
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_STREQ(error.what(), text);
    EXPECT_EQ(named, rank);
  }
}

TEST(Failures, NothingNotedIsNone) {
  int named = -2;
  const Failure none{};
  EXPECT_NO_THROW(throw_failure(none, kNames, 1, named));
  EXPECT_EQ(named, -1);
}

TEST(Failures, NameRankCallAndBytes) {
  Failure failure{};
  failure.missing[1] = 7;
  failure.missing[3] = 7;
  expect(failure, TAPA_DEVICE_ERR_TIMEOUT, 1, "rank 1, 3 did not arrive at call 7 within 2.5 seconds");
  failure.parted[2] = 7;
  expect(failure, TAPA_DEVICE_ERR_TIMEOUT, 2,
         "call 7: rank 2 does not arrive: it has had an error, or has freed its communicator");
  failure.from[3] = {7, kUnknown, 4096};
  expect(failure, TAPA_DEVICE_ERR_COUNT, 3,
         "call 7: rank 3 sends another number of bytes to this rank than the 4096 that it expects, or makes "
         "another "
         "call");
  failure.to[2] = {6, 100, 200};
  expect(failure, TAPA_DEVICE_ERR_COUNT, 2, "call 6: this rank sends 100 bytes to rank 2, which expects 200");
  failure.no_window[1] = 5;
  expect(failure, TAPA_DEVICE_ERR_WINDOW, 1, "call 5: rank 1 receives in memory whose registration is gone");
}

TEST(Failures, RanksOfANodeAreNamedAsTheCallerDoes) {
  Failure failure{};
  failure.missing[1] = 7;
  const int names[] = {4, 6};
  int named = -2;
  try {
    throw_failure(failure, names, 1, named);
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(), "rank 6 did not arrive at call 7 within 1 seconds");
    EXPECT_EQ(named, 6);
  }
}

}  // namespace
}  // namespace tapa::device
