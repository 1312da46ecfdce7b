/// @file
/// A rank of several nodes as threads of the host: its steps, the exchange of its node, and messages through
/// pipes on a stream of their own, all at once as on a device.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "device/lane_plan.hpp"
#include "host_machine.hpp"
#include "host_pipes.hpp"
#include "lane_machine.hpp"

namespace tapa::device {

/// Runs things one after the other in a thread, as a stream does.
class HostStream {
 public:
  HostStream() : thread_([this] { run(); }) {}
  ~HostStream() {
    put({});
    thread_.join();
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  /// The number of what was put.
  int put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push(std::move(work));
    changed_.notify_all();
    return ++put_;
  }
  void wait(int number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop();
      lock.unlock();
      if (!work) return;
      work();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> queue_;
  int put_ = 0;
  int done_ = 0;
  std::thread thread_;  ///< last: it uses the rest
};

class LaneThreads {
 public:
  /// `node`: the machine of this rank's node. `pipes`: to all ranks.
  LaneThreads(const Partition& nodes, int rank, HostMachine& node, HostPipes& pipes, std::size_t row)
      : nodes_(nodes), rank_(rank), node_(node), pipes_(pipes), plan_(plan_lanes(nodes, rank)) {
    for (const Area area : {Area::packed, Area::gathered, Area::outgoing, Area::landing}) {
      memory(area).assign(plan_.rows_of(area) * row, std::byte{0xdd});
    }
  }

  [[nodiscard]] std::vector<std::byte>& memory(Area area) { return areas_[static_cast<std::size_t>(area)]; }
  [[nodiscard]] const LanePlan& plan() const { return plan_; }

  void run(const std::vector<LaneStep>& steps, unsigned seed) {
    seed_ = seed;
    for (const LaneStep& step : steps) {
      if (const auto* copy = std::get_if<RowCopy>(&step)) copy_rows(*copy);
      if (const auto* exchange = std::get_if<NodeExchange>(&step)) exchange_in_node(*exchange);
      if (const auto* start = std::get_if<Start>(&step)) {
        marks_[start->slot] = stream_.put([this, start] { exchange_between(*start); });
      }
      if (const auto* wait = std::get_if<Wait>(&step)) stream_.wait(marks_[wait->slot]);
    }
  }

 private:
  std::byte* find(Place place) { return memory(place.area).data() + place.at; }

  void copy_rows(const RowCopy& copy) {
    for (std::size_t row = 0; row < copy.rows; ++row) {
      std::memcpy(find(copy.to.place) + index_of(plan_, copy.to.order, row) * copy.to.pitch,
                  find(copy.from.place) + index_of(plan_, copy.from.order, row) * copy.from.pitch,
                  copy.bytes);
    }
  }

  void exchange_in_node(const NodeExchange& exchange) {
    Call call = node_.call(nodes_.index_of(rank_));
    for (std::size_t member = 0; member < exchange.blocks.size(); ++member) {
      const NodeExchange::Block& block = exchange.blocks[member];
      call.blocks[member] = {find(block.send), find(block.receive), block.send_bytes, block.receive_bytes};
    }
    HostMachine::run(call, {1, 0, ++seed_});
  }

  void exchange_between(const Start& start) {
    std::vector<HostPipes::Part> sends(nodes_.group.size(), {nullptr, 0});
    std::vector<HostPipes::Part> receives = sends;
    for (const Message& m : start.sends) sends[static_cast<std::size_t>(m.peer)] = {find(m.place), m.bytes};
    for (const Message& m : start.receives)
      receives[static_cast<std::size_t>(m.peer)] = {find(m.place), m.bytes};
    pipes_.exchange(sends, receives, 77);
  }

  const Partition& nodes_;
  int rank_;
  HostMachine& node_;
  HostPipes& pipes_;
  LanePlan plan_;
  std::vector<std::byte> areas_[8];
  int marks_[kLaneSlots] = {};
  unsigned seed_ = 0;
  HostStream stream_;
};

}  // namespace tapa::device
