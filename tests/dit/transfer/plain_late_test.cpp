// A rank is late: what its exchange reads and writes lives until it has come, whatever the others do
// meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"
#include "transfer/plain_transfer.hpp"

namespace dit {
namespace {

struct Tensors {
  explicit Tensors(const TensorTransfer& of)
      : source(static_cast<std::size_t>(of.source_shape().elements())),
        target(static_cast<std::size_t>(of.target_shape().elements())) {}
  std::vector<float> source, target;
};

ExchangeRequest start(PlainTransfer& transfer, const std::shared_ptr<Tensors>& tensors, bool blocking) {
  const TensorShape &from = transfer.source_shape(), &to = transfer.target_shape();
  transfer.pack({std::as_bytes(std::span(tensors->source)), from, dense_strides(from)}, {}, {}, nullptr);
  TransferStart how;
  how.blocking = blocking;
  how.owner = tensors;
  return transfer.start({std::as_writable_bytes(std::span(tensors->target)), to, dense_strides(to)}, how);
}

// The first is a wait that fails, the second a start that waits.
TEST(PlainLate, TensorsStayForTheLateRank) {
  for (const bool blocking : {false, true}) {
    const UlyssesLayout layout({1, 0, 8, 4, 4, 2}, 2);
    std::atomic<bool> go{false};
    std::vector<dit_local_member> members = make_local_group({2});
    const std::jthread late([&] {
      ExchangeContext context(ExchangePlugin::load("local"), {&members[1], 30, ""});
      PlainTransfer transfer(context, layout, {AttentionTensor::key}, sizeof(float), 1);
      while (!go) std::this_thread::yield();
      start(transfer, std::make_shared<Tensors>(transfer), false).wait();
      context.barrier();
      context.barrier();
    });
    ExchangeContext context(ExchangePlugin::load("local"), {members.data(), 0.5, ""});
    std::weak_ptr<Tensors> watched;
    {
      PlainTransfer transfer(context, layout, {AttentionTensor::key}, sizeof(float), 1);
      auto tensors = std::make_shared<Tensors>(transfer);
      watched = tensors;
      EXPECT_THROW(start(transfer, tensors, blocking).wait(), ExchangeError);
    }
    EXPECT_FALSE(watched.expired());
    go = true;
    context.barrier();
    EXPECT_TRUE(watched.expired());
    context.barrier();
  }
}

}  // namespace
}  // namespace dit
