#include "slots.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <utility>

#include "exchange/log.hpp"
#include "streams.hpp"

namespace dit::operators {

at::Tensor Slots::take(int what) {
  Ring& ring = rings_[static_cast<std::size_t>(what)];
  ring.slots.resize(static_cast<std::size_t>(attention_.slots));
  std::optional<Slot>& slot = ring.slots[ring.next];
  const c10::Device device = attention_.torch_device();
  const unsigned long long capture = capture_of(current_stream(device));
  if (slot.has_value()) move_held(*slot, capture);
  at::Tensor tensor = at::for_blob(transfers_.slot(what, ring.next).data, transfers_.target(what))
                          .options(at::TensorOptions().dtype(attention_.dtype()).device(device))
                          .target_device(device)
                          .make_tensor();
  slot = Slot{tensor.storage(), capture};
  ring.next = (ring.next + 1) % ring.slots.size();
  return tensor;
}

void Slots::restart() noexcept {
  for (Ring& ring : rings_) ring.next = 0;
}

void Slots::move_held(const Slot& slot, unsigned long long capture) const {
  const c10::Storage& held = slot.storage;
  if (held.use_count() == 1 || held.nbytes() == 0 || slot.capture != capture) return;
  const auto bytes = static_cast<std::int64_t>(held.nbytes());
  const c10::Device device = attention_.torch_device();
  const at::TensorOptions options = at::TensorOptions().dtype(at::kByte).device(device);
  at::Tensor copy = at::empty({bytes}, options);
  copy.copy_(at::for_blob(const_cast<void*>(static_cast<const void*>(held.data())), {bytes})
                 .options(options)
                 .target_device(device)
                 .make_tensor());
  const c10::Storage& fresh = copy.storage();
  held.set_data_ptr_noswap(fresh.set_data_ptr(at::DataPtr(nullptr, device)));
}

Slots::~Slots() {
  try {
    for (const Ring& ring : rings_)
      for (const std::optional<Slot>& slot : ring.slots)
        if (slot.has_value()) move_held(*slot, 0);
  } catch (const std::exception& error) {
    log_warning(std::string("results that are still held are lost with their exchange: ") + error.what());
  }
}

}  // namespace dit::operators
