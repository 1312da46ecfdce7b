/// Steps of the C interface's fuzzer: transfers, with wires and without.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <vector>

#include "c_calls.hpp"
#include "transfer_model.hpp"

namespace fuzz {

/// Of a rank.
class Transfers {
 public:
  Transfers(const Place& place, Numbers& numbers) : place_(place), numbers_(numbers) {}

  /// `wire` null: the tensor travels as it is.
  void create(const std::shared_ptr<WireState>& wire);
  void start();
  void start_counted();
  void wait();
  void test();
  void release();
  void use_workspace();
  void cancel();
  void ask();
  void start_together();
  /// Binds to a registration, which may be null.
  void bind(dit_registration* registration);
  void misuse();
  void release_all();
  /// After the session is closed.
  void require_released() const;
  [[nodiscard]] bool empty() const { return ways_.empty(); }

 private:
  struct GivenUp {
    Buffer source, target;
    std::atomic<int> released{0};
  };

  [[nodiscard]] TransferModel model() const { return {place_.of, place_.layout, place_.rank, &place_.board}; }
  [[nodiscard]] Way* choose();
  bool start(Way& way);
  void wait(Way& way);
  void release(Way& way);
  void drop_freed();
  void give_up(Way& way);
  /// Where a start with a wire is; false: nowhere in the wire's run.
  bool choose_place(const Way& way, dit_transfer_call& call);
  [[nodiscard]] dit_status start_with_rows(Way& way, const dit_transfer_call& call);

  const Place& place_;
  Numbers& numbers_;
  std::vector<Way> ways_;
  std::vector<std::vector<std::uint8_t>> workspaces_;
  std::list<GivenUp> given_up_;
  int made_ = 0;
  int starts_ = 0;
};

}  // namespace fuzz
