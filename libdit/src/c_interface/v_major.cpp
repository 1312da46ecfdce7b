#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "c_interface/error.hpp"
#include "c_interface/handles.hpp"
#include "c_interface/masks.hpp"

using namespace dit::c_interface;

extern "C" {

dit_status dit_v_major_create(const char* text, dit_v_major** rule) {
  return guarded(__func__, [&] {
    (void)required(text, "text");
    dit_v_major*& result = required(rule, "rule");
    const dit::VMajorPolicy policy = dit::parse_v_major(text);
    if (policy.residual || policy.format != dit::WireFormat::full) {
      throw std::invalid_argument("text has format=" + std::string(policy.residual ? "residual-" : "") +
                                  to_string(policy.format) +
                                  ": expected none, rows travel as the caller gives them");
    }
    result = new dit_v_major{policy};
  });
}

dit_status dit_v_major_free(dit_v_major** rule) {
  return guarded(__func__, [&] {
    delete required(rule, "rule");
    *rule = nullptr;
  });
}

dit_status dit_v_major_text(const dit_v_major* rule, char* text, size_t bytes, size_t* length) {
  return guarded(__func__, [&] {
    const std::string full = to_string(required(rule, "rule").policy);
    if (bytes > 0) {
      (void)required(text, "text");
      const std::size_t copied = std::min(bytes - 1, full.size());
      std::memcpy(text, full.data(), copied);
      text[copied] = '\0';
    }
    if (length != nullptr) {
      *length = full.size();
    }
  });
}

dit_status dit_v_major_decide(const dit_v_major* rule, int step, int steps, int* full, double* ratio) {
  return guarded(__func__, [&] {
    const dit::VMajorPolicy& policy = required(rule, "rule").policy;
    int& all = required(full, "full");
    double& stays = required(ratio, "ratio");
    const dit::StepDecision decision = decide_step(policy, step, steps);
    all = decision.full ? 1 : 0;
    stays = decision.ratio;
  });
}

dit_status dit_v_major_mean_active(const dit_v_major* rule, int steps, double* fraction) {
  return guarded(__func__, [&] {
    const dit::VMajorPolicy& policy = required(rule, "rule").policy;
    double& result = required(fraction, "fraction");
    result = mean_active_fraction(policy, steps);
  });
}

size_t dit_row_mask_bytes(int64_t rows) {
  return rows < 0 ? 0 : static_cast<std::size_t>(rows / 8 + (rows % 8 != 0 ? 1 : 0));
}

dit_status dit_choose_active_rows(const float* scores, int64_t rows, double ratio, uint8_t* mask,
                                  size_t mask_bytes) {
  return guarded(__func__, [&] {
    require_memory("mask", mask, mask_bytes, dit::row_mask_bytes(rows));
    if (rows > 0) {
      (void)required(scores, "scores");
    }
    const std::span<const float> all(scores, static_cast<std::size_t>(rows));
    std::ranges::copy(dit::rows_to_mask(dit::choose_active_rows(all, ratio), rows), mask);
  });
}

dit_status dit_share_masks(dit_session* session, const dit_layout* layout, const uint8_t* mask,
                           size_t mask_bytes, uint8_t* masks, size_t masks_bytes) {
  return guarded(__func__, [&] {
    dit::ExchangeContext& context = required(session, "session").context;
    const dit::UlyssesLayout& rows = required(layout, "layout").layout;
    const MaskPlaces places(rows);
    require_ranks(rows, context.size());
    require_memory("mask", mask, mask_bytes, places.bytes(context.rank()));
    require_memory("masks", masks, masks_bytes, places.all_bytes());
    std::vector<dit_block> to_all(static_cast<std::size_t>(context.size()), dit_block{0, mask_bytes});
    dit_exchange_call call{};
    call.send = mask;
    call.recv = masks;
    call.send_blocks = to_all.data();
    call.recv_blocks = places.blocks().data();
    call.label = "row masks";
    context.exchange(call);
  });
}

}  // extern "C"
