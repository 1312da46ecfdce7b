/// Targets that are known to all ranks, and the kernel that stores into them.
#pragma once

#include <vector>

#include "c_interface/handles.hpp"
#include "transfer/device/prepare.hpp"
#include "transfer/push_map.hpp"

namespace dit::c_interface {

/// A rank's target as this rank's kernels see it; strides in elements.
struct PeerTarget {
  std::byte* begin;
  std::int64_t batch, row, head;
};

struct BoundTarget {
  dit_registration* registration;
  dit_tensor own;                 ///< as it was given
  std::vector<PeerTarget> peers;  ///< of all ranks
};

/// Collective: every rank's target. Throws on all ranks alike. `extent`: bytes of this rank's, checked
/// before.
[[nodiscard]] BoundTarget bind_target(ExchangeContext& context, dit_registration& registration,
                                      const dit_tensor& target, const TensorStrides& strides,
                                      std::size_t extent);

/// Adds the parts of a source's rows to a job. Throws ExchangeError for more ranks than a launch has room
/// for.
void add_push_parts(PrepareJob& job, const std::vector<PushPart>& map, const BoundTarget& bound,
                    std::size_t element_bytes);

/// One handshake, one launch, one handshake, which peers get to the end of also where the launch failed.
/// Throws ExchangeError.
[[nodiscard]] ExchangeRequest push(const RegisteredMemory& memory, const std::vector<PrepareJob>& jobs,
                                   int element_type, int device, void* stream);

/// Adds a part whose first row's first head goes to `begin`, and the others by these strides.
void add_part(PrepareJob& job, const PushPart& part, std::byte* begin, const TensorStrides& strides);
/// Of the rank's own target.
void add_own_part(PrepareJob& job, const PushPart& part, const TargetTensor& target,
                  std::size_t element_bytes);

/// On the device's stream, or on the host.
void run_jobs(const std::vector<PrepareJob>& jobs, int element_type, int memory_kind, int device,
              void* stream);

}  // namespace dit::c_interface
