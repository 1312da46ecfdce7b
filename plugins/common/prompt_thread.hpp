/// A thread that sleeps most of the time and should run at once when it wakes.
#pragma once

namespace dit {

/// Asks the kernel to wake the calling thread on time, and to let it go before threads that compute: it will
/// use a core for microseconds only. A wish: where the kernel cannot, nothing changes. Linux 6.12 and newer
/// know it; older ones prefer such threads by themselves.
void be_prompt() noexcept;

}  // namespace dit
