// The C entry points of a library that was built without CUDA.
#include "device/create.hpp"
#include "device/device_error.hpp"
#include "tapa/device.h"

using namespace tapa::device;

namespace {

int unavailable(const char* function) noexcept {
  return contained(function, [] {
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                      "this library was built without CUDA: configure it with -DTAPA_CUDA=ON where nvcc is");
  });
}

}  // namespace

int tapa::device::create_communicator(const char* function, int, int, TAPA_Device_allgather,
                                      const std::shared_ptr<void>&, const MessageOffer&,
                                      const TAPA_Device_options*, TAPA_Device_comm*) noexcept {
  return unavailable(function);
}

bool tapa::device::reaches(TAPA_Device_comm, int) noexcept {
  return false;
}

void tapa::device::end_messages(TAPA_Device_comm) noexcept {}

extern "C" {

int TAPA_Device_comm_create(int, int, TAPA_Device_allgather, void*, const TAPA_Device_options*,
                            TAPA_Device_comm*) {
  return unavailable("TAPA_Device_comm_create");
}
int TAPA_Device_reach(int, int, TAPA_Device_allgather, void*, int*) {
  return unavailable("TAPA_Device_reach");
}
int TAPA_Device_comm_free(TAPA_Device_comm*) {
  return unavailable("TAPA_Device_comm_free");
}
int TAPA_Device_alltoall(const void*, void*, size_t, TAPA_Device_comm, void*) {
  return unavailable("TAPA_Device_alltoall");
}
int TAPA_Device_alltoallv(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*,
                          TAPA_Device_comm, void*) {
  return unavailable("TAPA_Device_alltoallv");
}
int TAPA_Device_alltoall_strided(const void*, const TAPA_Device_block*, void*, const TAPA_Device_block*,
                                 TAPA_Device_comm, void*) {
  return unavailable("TAPA_Device_alltoall_strided");
}
int TAPA_Device_ialltoallv(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*,
                           TAPA_Device_comm, void*, void*, int*) {
  return unavailable("TAPA_Device_ialltoallv");
}
int TAPA_Device_ialltoall_strided(const void*, const TAPA_Device_block*, void*, const TAPA_Device_block*,
                                  TAPA_Device_comm, void*, void*, int*) {
  return unavailable("TAPA_Device_ialltoall_strided");
}
int TAPA_Device_register(TAPA_Device_comm, void*, size_t, int, int*) {
  return unavailable("TAPA_Device_register");
}
int TAPA_Device_deregister(TAPA_Device_comm, int) {
  return unavailable("TAPA_Device_deregister");
}
int TAPA_Device_is_direct(TAPA_Device_comm, int, int*) {
  return unavailable("TAPA_Device_is_direct");
}
int TAPA_Device_peer_memory(TAPA_Device_comm, int, int, void**) {
  return unavailable("TAPA_Device_peer_memory");
}
int TAPA_Device_begin_stores(TAPA_Device_comm, int, void*) {
  return unavailable("TAPA_Device_begin_stores");
}
int TAPA_Device_end_stores(TAPA_Device_comm, int, void*) {
  return unavailable("TAPA_Device_end_stores");
}
int TAPA_Device_query(TAPA_Device_comm, int*) {
  return unavailable("TAPA_Device_query");
}
int TAPA_Device_give_up(TAPA_Device_comm, const char*) {
  return unavailable("TAPA_Device_give_up");
}
int TAPA_Device_restart(TAPA_Device_comm) {
  return unavailable("TAPA_Device_restart");
}
int TAPA_Device_describe(TAPA_Device_comm, const char**) {
  return unavailable("TAPA_Device_describe");
}
const char* TAPA_Device_last_error(void) {
  return last_error();
}

}  // extern "C"
