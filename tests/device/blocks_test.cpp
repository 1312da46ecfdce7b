// Strided blocks as callers give them: what is refused, and with which words.
#include "device/blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "device/device_error.hpp"

namespace tapa::device {
namespace {

std::string refusal(const TAPA_Device_block& block, bool receives = true) {
  try {
    (void)strides_of("recv", 3, block, receives);
    return "";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), TAPA_DEVICE_ERR_ARG);
    return error.what();
  }
}

TEST(Blocks, RightOnesAreTaken) {
  EXPECT_EQ(refusal({0, 3072, 4608, 9216, 3, 3072}), "");
  EXPECT_EQ(refusal({5, 1, 1, 0, 1, 0}), "") << "strides of one row mean nothing";
  EXPECT_EQ(refusal({0, 0, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX}), "") << "no bytes";
  EXPECT_EQ(refusal({0, 4294967294, 1, 0, 1, 0}), "");
  EXPECT_EQ(refusal({0, 16, 8, 0, 1, 0}, false), "") << "rows to send may overlap";
}

TEST(Blocks, WrongOnesAreNamed) {
  EXPECT_EQ(refusal({0, 16, 2, 8, 1, 0}), "recv[3].row_stride is 8, expected at least row_bytes, 16");
  EXPECT_EQ(refusal({0, 16, 2, 32, 2, 8}), "recv[3].plane_stride is 8, expected at least row_bytes, 16");
  EXPECT_EQ(refusal({0, 1, 1, 0, 2097152, 1}), "recv[3].planes is 2097152, expected at most 2097151");
  EXPECT_EQ(refusal({0, 1 << 16, 1 << 16, 1 << 16, 1, 0}),
            "recv[3] has 1 planes of 65536 rows of 65536 bytes, expected at most 4294967294 bytes");
  EXPECT_THAT(refusal({0, SIZE_MAX, SIZE_MAX, 0, 3, 0}),
              testing::HasSubstr("expected at most 4294967294 bytes"));
  EXPECT_THAT(refusal({SIZE_MAX, 16, 1, 0, 1, 0}), testing::HasSubstr("ends more than 2^48 bytes behind"));
  EXPECT_THAT(refusal({0, 16, 3, SIZE_MAX / 2 + 1, 1, 0}),
              testing::HasSubstr("row_stride 9223372036854775808"));
}

TEST(Blocks, ARanksOwnBlockHasOneLength) {
  const TAPA_Device_block send[] = {{0, 16, 4, 32, 1, 0}, {0, 16, 4, 32, 1, 0}};
  const TAPA_Device_block receive[] = {{0, 8, 8, 8, 1, 0}, {0, 8, 9, 8, 1, 0}};
  EXPECT_EQ(total_bytes(strided_layout(0, 2, send, receive).receive), 64U + 72);
  try {
    (void)strided_layout(1, 2, send, receive);
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "send[1] has 64 bytes and recv[1] has 72, expected the same for this rank's own block");
  }
}

}  // namespace
}  // namespace tapa::device
