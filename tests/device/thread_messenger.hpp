/// @file
/// Messages between threads. Data is read from the sender's memory as late as possible, so that a slot that
/// is filled again too soon is seen.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "device/device_error.hpp"
#include "device/messenger.hpp"

namespace tapa::device {

/// What the messengers of all ranks share.
class Network {
 public:
  struct Post {
    void* memory;
    std::size_t bytes;
    bool* done;
  };
  using Way = std::tuple<int, int, int>;  ///< from, to, channel

  std::mutex mutex;
  std::map<Way, std::deque<Post>> sent, wanted;
  int delay = 0;  ///< one in so many calls of progress() moves something; 0: all
  unsigned calls = 0;

  void move() {
    if (delay != 0 && ++calls % static_cast<unsigned>(delay) != 0) return;
    for (auto& [way, line] : sent) {
      std::deque<Post>& receivers = wanted[way];
      while (!line.empty() && !receivers.empty()) {
        if (line.front().bytes > receivers.front().bytes) throw DeviceError(TAPA_DEVICE_ERR_ARG, "too long");
        std::memcpy(receivers.front().memory, line.front().memory, line.front().bytes);
        *line.front().done = *receivers.front().done = true;
        line.pop_front();
        receivers.pop_front();
      }
    }
  }
};

class ThreadMessenger final : public Messenger {
 public:
  ThreadMessenger(Network& network, int rank) : network_(network), rank_(rank) {}

  [[nodiscard]] std::string describe() const override { return "threads"; }
  [[nodiscard]] bool takes_device_memory() const override { return false; }
  void at_end(std::function<void()>, std::function<void()>) override {}
  void provide(std::size_t requests) override {
    done_ = std::make_unique<bool[]>(requests);
    seen_.assign(requests, true);
  }
  void send(std::size_t request, Address address, const void* memory, std::size_t bytes) override {
    post(network_.sent, {rank_, address.peer, address.channel}, request, const_cast<void*>(memory), bytes);
  }
  void receive(std::size_t request, Address address, void* memory, std::size_t bytes) override {
    post(network_.wanted, {address.peer, rank_, address.channel}, request, memory, bytes);
  }
  void progress() override {
    const std::lock_guard lock(network_.mutex);
    network_.move();
    for (std::size_t request = 0; request < seen_.size(); ++request) {
      if (!seen_[request]) seen_[request] = done_[request];
    }
  }
  [[nodiscard]] bool done(std::size_t request) const override { return seen_[request]; }
  void abandon() override {
    const std::lock_guard lock(network_.mutex);
    for (auto& [way, line] : network_.wanted) {
      if (std::get<1>(way) == rank_) line.clear();
    }
    for (auto& [way, line] : network_.sent) {
      if (std::get<0>(way) == rank_) line.clear();
    }
  }

 private:
  void post(std::map<Network::Way, std::deque<Network::Post>>& lines, const Network::Way& way,
            std::size_t request, void* memory, std::size_t bytes) {
    const std::lock_guard lock(network_.mutex);
    if (!seen_[request]) throw DeviceError(TAPA_DEVICE_ERR_ARG, "a number is used twice");
    seen_[request] = false;
    done_[request] = false;
    lines[way].push_back({memory, bytes, &done_[request]});
  }

  Network& network_;
  int rank_;
  std::unique_ptr<bool[]> done_;
  std::vector<bool> seen_;
};

}  // namespace tapa::device
