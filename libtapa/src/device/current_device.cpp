#include "device/current_device.hpp"

#include <cuda.h>

#include <string>

#include "device/cuda_objects.hpp"
#include "device/device_error.hpp"
#include "device/driver_function.hpp"

namespace tapa::device {

namespace {

/// What this file asks of the driver, which has had all of it since CUDA 11.
struct Driver : DriverFunctions {
  decltype(cuDevicePrimaryCtxRetain)* retain =
      find<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", 7000);
  decltype(cuDevicePrimaryCtxRelease)* release =
      find<decltype(cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease", 11000);
  decltype(cuCtxGetDevice)* device = find<decltype(cuCtxGetDevice)>("cuCtxGetDevice", 2000);
  decltype(cuStreamGetCtx)* context_of = find<decltype(cuStreamGetCtx)>("cuStreamGetCtx", 9020);
  decltype(cuCtxPushCurrent)* push = find<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent", 4000);
  decltype(cuCtxPopCurrent)* pop = find<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent", 4000);
};

const Driver& driver() {
  static const Driver found;
  return found;
}

void require(bool right, const char* call, int device) {
  if (right) return;
  throw DeviceError(TAPA_DEVICE_ERR_CUDA, std::string(call) + " failed for device " + std::to_string(device));
}

}  // namespace

CurrentDevice::CurrentDevice(int device) : device_(device) {
  require(driver().complete(), "finding the driver's contexts", device);
  CUdevice before = -1;
  if (driver().device(&before) == CUDA_SUCCESS && before == device) return;
  CUcontext context = nullptr;
  require(driver().retain(&context, device) == CUDA_SUCCESS, "cuDevicePrimaryCtxRetain", device);
  pushed_ = driver().push(context) == CUDA_SUCCESS;
  if (!pushed_) (void)driver().release(device);
  require(pushed_, "cuCtxPushCurrent", device);
}

int multiprocessors_here() {
  int device = 0, count = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return count;
}

int device_of_stream(cudaStream_t stream) {
  CUcontext context = nullptr;
  CUdevice device = -1;
  if (driver().context_of(stream, &context) != CUDA_SUCCESS || driver().push(context) != CUDA_SUCCESS)
    return -1;
  if (driver().device(&device) != CUDA_SUCCESS) device = -1;
  (void)driver().pop(&context);
  return device;
}

CurrentDevice::~CurrentDevice() {
  if (!pushed_) return;
  CUcontext context = nullptr;
  (void)driver().pop(&context);
  (void)driver().release(device_);
}

}  // namespace tapa::device
