#include "run/device_memory.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace tapa {
namespace {

/// A driver is loaded, initialised, and gives memory; FAKE_GPU is its file.
TEST(DeviceMemory, IsThatOfTheDriverWhichTheProcessUses) {
  const std::vector<char> host(8);
  EXPECT_FALSE(gpu_in_use());
  EXPECT_FALSE(is_device_memory(host.data()));

  const char* const file = std::getenv("FAKE_GPU");
  ASSERT_NE(file, nullptr);
  void* const driver = dlopen(file, RTLD_NOW);
  ASSERT_NE(driver, nullptr) << dlerror();
  EXPECT_FALSE(gpu_in_use());  // tools load it and do nothing with it

  reinterpret_cast<void (*)()>(dlsym(driver, "fake_initialise"))();
  EXPECT_TRUE(gpu_in_use());
  EXPECT_FALSE(is_device_memory(host.data()));
  EXPECT_FALSE(is_device_memory(nullptr));

  constexpr std::size_t bytes = 16384;
  const auto allocate = reinterpret_cast<void* (*)(std::size_t)>(dlsym(driver, "fake_allocate"));
  const char* const memory = static_cast<char*>(allocate(bytes));
  EXPECT_TRUE(is_device_memory(memory));
  EXPECT_TRUE(is_device_memory(memory + 5000));
  EXPECT_FALSE(is_device_memory(memory + bytes - 1));  // shared with the processor
  EXPECT_FALSE(is_device_memory(memory + bytes));
}

// A call that waits for other ranks must not hold up those of other threads, nor copies.
TEST(DeviceMemory, StreamsAreNotShared) {
  void* const library = dlopen(std::getenv("FAKE_GPU"), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  CudaDriver driver(library);
  CudaMemory near;
  near.device = 0;
  const CudaStream one = driver.make_stream(near);
  EXPECT_NE(one, driver.make_stream(near));
  const auto waited = reinterpret_cast<void* (*)()>(dlsym(library, "fake_waited_for"));
  driver.wait(near);
  EXPECT_NE(waited(), one);
}

}  // namespace
}  // namespace tapa
