#include "engine/shared_order.hpp"

#include <array>
#include <memory>
#include <stdexcept>

#include "predict/choose_order.hpp"

namespace dit {
namespace {

/// An action in a number; 0 is none.
std::uint64_t number_of(const Action& action) {
  return ((static_cast<std::uint64_t>(action.step) << 8) | static_cast<std::uint64_t>(action.kind)) + 1;
}
Action action_of(std::uint64_t number) {
  return {static_cast<Action::Kind>((number - 1) & 0xff), static_cast<StepId>((number - 1) >> 8)};
}

}  // namespace

Order make_shared_order(Schedule schedule, const StepGraph& graph, ExchangeContext* context) {
  if (context == nullptr) {
    return make_order(schedule, graph);
  }
  const std::size_t most = 2 * graph.steps.size();  // start and wait
  const auto numbers = std::make_shared<std::array<std::vector<std::uint64_t>, 2>>();
  auto& [own, everyone] = *numbers;
  everyone.resize(most, 0);
  std::vector<dit_block> send(static_cast<std::size_t>(context->size()));
  std::vector<dit_block> recv(send.size());
  recv[0].bytes = most * sizeof(std::uint64_t);
  if (context->rank() == 0) {
    for (const Action& action : make_order(schedule, graph)) {
      own.push_back(number_of(action));
    }
    if (own.size() > most) {
      throw std::logic_error("an order of " + std::to_string(own.size()) + " actions for " +
                             std::to_string(graph.steps.size()) + " steps");
    }
    own.resize(most, 0);
    send.assign(send.size(), dit_block{0, recv[0].bytes});
  }
  dit_exchange_call call{};
  call.send = own.data();
  call.recv = everyone.data();
  call.send_blocks = send.data();
  call.recv_blocks = recv.data();
  call.label = "order of steps";
  context->exchange(call, numbers);
  Order order;
  for (std::size_t i = 0; i < most && everyone[i] != 0; ++i) {
    order.push_back(action_of(everyone[i]));
  }
  return order;
}

}  // namespace dit
