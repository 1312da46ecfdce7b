#include "engine/guidance.hpp"

#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

namespace dit {
namespace {

constexpr std::array<std::pair<GuidanceMode, const char*>, 3> kModes = {
    {{GuidanceMode::batched, "batched"},
     {GuidanceMode::sequential, "sequential"},
     {GuidanceMode::parallel, "parallel"}}};

}  // namespace

GuidanceMode parse_guidance_mode(const std::string& name) {
  for (const auto& [mode, text] : kModes) {
    if (name == text) {
      return mode;
    }
  }
  throw std::invalid_argument("guidance mode = " + name + ": expected batched, sequential or parallel");
}

const char* to_string(GuidanceMode mode) {
  for (const auto& [known, text] : kModes) {
    if (mode == known) {
      return text;
    }
  }
  return "unknown";
}

GuidanceMode default_guidance_mode(Schedule schedule) {
  return schedule == Schedule::pipelined ? GuidanceMode::sequential : GuidanceMode::batched;
}

BranchPlan plan_branches(GuidanceMode mode, bool guided, std::int64_t label, std::int64_t null_label,
                         int rank, int ranks) {
  if (!guided) {
    return {{{label}}, -1, true};
  }
  switch (mode) {
    case GuidanceMode::batched:
      return {{{label, null_label}}, -1, true};
    case GuidanceMode::sequential:
      return {{{label}, {null_label}}, -1, true};
    case GuidanceMode::parallel:
      break;
  }
  const int half = ranks / 2;
  const bool conditional = rank < half;
  return {{{conditional ? label : null_label}}, conditional ? rank + half : rank - half, conditional};
}

at::Tensor exchange_with_partner(ExchangeContext& context, int partner, const at::Tensor& own) {
  const at::Tensor sent = own.contiguous();
  at::Tensor received = at::empty_like(sent);
  std::vector<dit_block> blocks(static_cast<std::size_t>(context.size()));
  blocks[static_cast<std::size_t>(partner)].bytes = sent.nbytes();
  dit_exchange_call call{};
  call.send = sent.data_ptr();
  call.recv = received.data_ptr();
  call.send_blocks = blocks.data();
  call.recv_blocks = blocks.data();
  call.label = "guidance";
  context.exchange(call, std::make_shared<std::array<at::Tensor, 2>>(std::array{sent, received}));
  return received;
}

}  // namespace dit
