// tapa/device.h where no GPU need be: wrong arguments, and what a library without CUDA or a machine without a
// GPU says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tapa/device.h"

namespace {

using testing::HasSubstr;

int alone(void*, const void* mine, void* all, size_t bytes) {
  std::memcpy(all, mine, bytes);
  return 0;
}

/// Creates a communicator of one rank.
int create(TAPA_Device_comm* comm, const TAPA_Device_options* options = nullptr) {
  return TAPA_Device_comm_create(0, 1, alone, nullptr, options, comm);
}

bool built_with_cuda() {
  TAPA_Device_comm none = TAPA_DEVICE_COMM_NULL;
  (void)TAPA_Device_comm_free(&none);
  return std::strstr(TAPA_Device_last_error(), "without CUDA") == nullptr;
}

TEST(DeviceInterface, WithoutAGpuItSaysSo) {
  TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
  const int code = create(&comm);
  if (code == TAPA_DEVICE_SUCCESS) {  // there is one
    EXPECT_EQ(TAPA_Device_comm_free(&comm), TAPA_DEVICE_SUCCESS) << TAPA_Device_last_error();
    EXPECT_EQ(comm, TAPA_DEVICE_COMM_NULL);
    return;
  }
  EXPECT_EQ(code, TAPA_DEVICE_ERR_UNSUPPORTED) << TAPA_Device_last_error();
  EXPECT_EQ(comm, TAPA_DEVICE_COMM_NULL);
  EXPECT_THAT(TAPA_Device_last_error(), HasSubstr("TAPA_Device_comm_create: "));
  if (!built_with_cuda()) {
    EXPECT_THAT(TAPA_Device_last_error(), HasSubstr("built without CUDA: configure it with -DTAPA_CUDA=ON"));
  }
}

TEST(DeviceInterface, WrongArgumentsAreNamed) {
  if (!built_with_cuda()) GTEST_SKIP() << "built without CUDA";
  const auto expect = [](int code, const char* text) {
    EXPECT_EQ(code, TAPA_DEVICE_ERR_ARG);
    EXPECT_THAT(TAPA_Device_last_error(), HasSubstr(text));
  };
  TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
  expect(TAPA_Device_comm_create(0, 1025, alone, nullptr, nullptr, &comm),
         "size is 1025, expected 1 to 1024");
  expect(TAPA_Device_comm_create(2, 2, alone, nullptr, nullptr, &comm), "rank is 2, expected 0 to 1");
  expect(TAPA_Device_comm_create(0, 1, nullptr, nullptr, nullptr, &comm), "allgather is null");
  expect(create(nullptr), "comm is null");
  TAPA_Device_options options{};
  expect(create(&comm, &options), "options.struct_size is 0");
  options.struct_size = sizeof(options);
  options.timeout = -1;
  expect(create(&comm, &options), "options.timeout is -1");
  options.timeout = 0;
  options.wire = 99;
  expect(create(&comm, &options), "options.wire is 99, expected a TAPA_DEVICE_WIRE");
  options.wire = 0;
  options.channels = 65;
  expect(create(&comm, &options), "options.channels is 65, expected 0 to 64");
  expect(TAPA_Device_alltoall(nullptr, nullptr, 0, TAPA_DEVICE_COMM_NULL, nullptr), "comm is null");
  expect(TAPA_Device_register(TAPA_DEVICE_COMM_NULL, nullptr, 0, 0, nullptr), "comm is null");
  expect(TAPA_Device_query(TAPA_DEVICE_COMM_NULL, nullptr), "comm is null");
  const char* text = nullptr;
  expect(TAPA_Device_describe(TAPA_DEVICE_COMM_NULL, &text), "comm is null");
  expect(TAPA_Device_describe(TAPA_DEVICE_COMM_NULL, nullptr), "text is null");
  expect(TAPA_Device_alltoall_strided(nullptr, nullptr, nullptr, nullptr, TAPA_DEVICE_COMM_NULL, nullptr),
         "comm is null");
  expect(TAPA_Device_ialltoall_strided(nullptr, nullptr, nullptr, nullptr, TAPA_DEVICE_COMM_NULL, nullptr,
                                       nullptr, nullptr),
         "done is null, expected an event");
  int event = 0;
  expect(TAPA_Device_ialltoallv(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, TAPA_DEVICE_COMM_NULL,
                                nullptr, &event, nullptr),
         "recorded is null, expected the address of an int");
  EXPECT_EQ(event, 0);
  int recorded = 0;
  expect(TAPA_Device_ialltoallv(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, TAPA_DEVICE_COMM_NULL,
                                nullptr, &event, &recorded),
         "comm is null");
  void* memory = nullptr;
  expect(TAPA_Device_peer_memory(TAPA_DEVICE_COMM_NULL, 0, 0, &memory), "comm is null");
  expect(TAPA_Device_peer_memory(TAPA_DEVICE_COMM_NULL, 0, 0, nullptr), "memory is null");
  expect(TAPA_Device_begin_stores(TAPA_DEVICE_COMM_NULL, 0, nullptr), "comm is null");
  expect(TAPA_Device_end_stores(TAPA_DEVICE_COMM_NULL, 0, nullptr), "comm is null");
}

TEST(DeviceInterface, WithoutCudaEveryCallSaysHowToGetIt) {
  if (built_with_cuda()) GTEST_SKIP() << "built with CUDA";
  const auto expect = [](int code, const char* function) {
    EXPECT_EQ(code, TAPA_DEVICE_ERR_UNSUPPORTED);
    EXPECT_THAT(TAPA_Device_last_error(), HasSubstr(function));
    EXPECT_THAT(TAPA_Device_last_error(), HasSubstr("-DTAPA_CUDA=ON"));
  };
  expect(TAPA_Device_alltoall_strided(nullptr, nullptr, nullptr, nullptr, TAPA_DEVICE_COMM_NULL, nullptr),
         "TAPA_Device_alltoall_strided: ");
  expect(TAPA_Device_ialltoall_strided(nullptr, nullptr, nullptr, nullptr, TAPA_DEVICE_COMM_NULL, nullptr,
                                       nullptr, nullptr),
         "TAPA_Device_ialltoall_strided: ");
  expect(TAPA_Device_peer_memory(TAPA_DEVICE_COMM_NULL, 0, 0, nullptr), "TAPA_Device_peer_memory: ");
  expect(TAPA_Device_begin_stores(TAPA_DEVICE_COMM_NULL, 0, nullptr), "TAPA_Device_begin_stores: ");
  expect(TAPA_Device_end_stores(TAPA_DEVICE_COMM_NULL, 0, nullptr), "TAPA_Device_end_stores: ");
  expect(TAPA_Device_describe(TAPA_DEVICE_COMM_NULL, nullptr), "TAPA_Device_describe: ");
  int group = 0;
  expect(TAPA_Device_reach(0, 1, nullptr, nullptr, &group), "TAPA_Device_reach: ");
}

}  // namespace
