/// @file
/// Data that passes from one thread to another through MPI: by a request that one completes and the other
/// waits for. MPI is not instrumented, so the thread sanitizer must be told; else nothing happens here.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#include <unistd.h>

namespace tapa {

/// What this thread has done is seen by those that take over later. `environ`: an address that is the same in
/// programs and libraries.
inline void hand_over() {
  __tsan_release(static_cast<void*>(&environ));
}
inline void take_over() {
  __tsan_acquire(static_cast<void*>(&environ));
}

}  // namespace tapa

#else

namespace tapa {

inline void hand_over() {}
inline void take_over() {}

}  // namespace tapa

#endif
