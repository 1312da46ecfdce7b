// libdit's C interface as a sequence of calls by ranks that are threads. All ranks make the same calls, also
// the wrong ones; a model says which must succeed, and what every target must hold.
#include <dit/dit.h>

#include <cstring>
#include <thread>
#include <vector>

#include "fuzz.hpp"
#include "transfer_model.hpp"

namespace {

constexpr int kMostCalls = 40;
using fuzz::Case, fuzz::Way, fuzz::kUntouched, fuzz::must_fail, fuzz::must_work, fuzz::require_status;

/// A rank: the same calls as all others.
class Rank {
 public:
  Rank(const Case& of, dit_local_group* group, int rank, fuzz::Numbers numbers)
      : case_(of), rank_(rank), numbers_(numbers) {
    dit_open_options open{};
    open.struct_size = sizeof open;
    open.timeout_seconds = 30;
    must_work(dit_local_group_member(group, rank, &open.communicator), "dit_local_group_member");
    must_work(dit_session_open("local", &open, &session_), "dit_session_open");
    layout_status_ = dit_layout_create(&of.shape, of.ranks, &layout_);
  }

  void run() {
    check_session();
    for (int call = 0; call < kMostCalls && !numbers_.empty(); ++call) step();
    for (Way& way : ways_) release(way);
    must_work(dit_layout_free(&layout_), "dit_layout_free");
    must_work(dit_layout_free(&layout_), "dit_layout_free of null");
    must_work(dit_session_close(&session_), "dit_session_close");
    must_work(dit_session_close(&session_), "dit_session_close of null");
  }

 private:
  void check_session() {
    int rank = -1, size = -1;
    must_work(dit_session_ranks(session_, &rank, &size), "dit_session_ranks");
    fuzz::require(rank == rank_ && size == case_.ranks, "a session's rank and size");
    fuzz::require((layout_status_ == DIT_OK) == (layout_ != nullptr), "a layout, or an error");
  }

  void step() {
    switch (numbers_.up_to(11)) {
      case 0:
      case 1:
        return create();
      case 2:
      case 3:
      case 4:
        return with_way([&](Way& way) { start(way); });
      case 5:
      case 6:
        return with_way([&](Way& way) { wait(way); });
      case 7:
        return with_way([&](Way& way) { test(way); });
      case 8:
        return with_way([&](Way& way) {
          release(way);
          std::erase_if(ways_, [](const Way& any) { return any.transfer == nullptr; });
        });
      case 9:
        return with_way([&](Way& way) { use_workspace(way); });
      case 10:
        return misuse();
      default:
        return schedule();
    }
  }

  [[nodiscard]] fuzz::TransferModel model() const { return {case_, layout_, rank_}; }

  template <typename Action>
  void with_way(Action action) {
    const int chosen = numbers_.byte();
    if (!ways_.empty()) action(ways_[static_cast<std::size_t>(chosen) % ways_.size()]);
  }

  void create() {
    Way way;
    way.kind = numbers_.up_to(4);
    way.groups = numbers_.up_to(3);
    way.group = numbers_.up_to(3);
    way.element = static_cast<std::size_t>(numbers_.up_to(4));
    if (layout_ == nullptr || ways_.size() >= 6) return;
    dit_transfer_options options{};
    options.struct_size = sizeof options;
    options.kind = way.kind;
    options.group = way.group;
    options.groups = way.groups;
    options.element_bytes = way.element;
    const bool right =
        way.kind <= DIT_GATHER_OUTPUT && way.groups >= 1 && way.group < way.groups && way.element >= 1;
    require_status(right, dit_transfer_create(session_, layout_, &options, &way.transfer),
                   "dit_transfer_create");
    if (!right) {
      fuzz::require(way.transfer == nullptr, "a failed call leaves its outputs");
      return;
    }
    std::size_t source = 0, target = 0;
    must_work(dit_transfer_bytes(way.transfer, &source, &target), "dit_transfer_bytes");
    way.source.resize(source);
    way.target.resize(target);
    ways_.push_back(std::move(way));
  }

  void start(Way& way) {
    const int fault = numbers_.up_to(7);
    dit_transfer_call call{};
    call.struct_size = sizeof call;
    if (!way.under_way && fault != 1 && fault != 2) {
      ++way.round;
      model().fill(way);
      std::fill(way.target.begin(), way.target.end(), kUntouched);
    }
    call.source = {way.source.data(), way.source.size(), 0, 0, 0};
    call.target = {way.target.data(), way.target.size(), 0, 0, 0};
    if (fault == 1) ++call.source.bytes;
    if (fault == 2) call.struct_size = 3;
    const bool right = !way.under_way && fault != 1 && fault != 2;
    require_status(right, dit_transfer_start(way.transfer, &call), "dit_transfer_start");
    if (right) way.under_way = way.started = true;
  }

  void wait(Way& way) {
    must_work(dit_transfer_wait(way.transfer), "dit_transfer_wait");
    if (way.under_way) model().check(way);
    way.under_way = false;
  }

  void test(Way& way) {
    int done = -1;
    must_work(dit_transfer_test(way.transfer, &done), "dit_transfer_test");
    fuzz::require(done == 1 || (done == 0 && way.under_way), "done, or under way");
    wait(way);  // ranks see different answers, and go on alike
  }

  /// Under way or not; a freed one may be freed again.
  void release(Way& way) {
    const bool waits = way.under_way;
    must_work(dit_transfer_free(&way.transfer), "dit_transfer_free");
    fuzz::require(way.transfer == nullptr, "a freed handle is null");
    if (waits) model().check(way);
    must_work(dit_transfer_free(&way.transfer), "dit_transfer_free of null");
  }

  void use_workspace(Way& way) {
    std::size_t bytes = 0;
    must_work(dit_transfer_workspace_bytes(way.transfer, &bytes), "dit_transfer_workspace_bytes");
    workspaces_.emplace_back(bytes + 1);
    const bool enough = numbers_.coin() || bytes == 0;
    const bool right = !way.under_way && !way.started && enough;
    const dit_status status =
        dit_transfer_use_workspace(way.transfer, workspaces_.back().data(), enough ? bytes : bytes - 1);
    if (right) must_work(status, "dit_transfer_use_workspace");
    if (!enough || way.under_way) must_fail(status, "dit_transfer_use_workspace");
  }

  /// Local calls with something wrong in them; nothing changes.
  void misuse() {
    std::size_t bytes = 7;
    int number = 7;
    switch (numbers_.up_to(8)) {
      case 0:
        return must_fail(dit_session_ranks(nullptr, &number, &number), "dit_session_ranks");
      case 1:
        return must_fail(dit_session_ranks(session_, nullptr, &number), "dit_session_ranks");
      case 2:
        return must_fail(dit_session_level(session_, "no such level", &number), "dit_session_level");
      case 3:
        return must_fail(dit_transfer_start(nullptr, nullptr), "dit_transfer_start");
      case 4:
        return must_fail(dit_transfer_bytes(nullptr, &bytes, &bytes), "dit_transfer_bytes");
      case 5:
        return must_fail(dit_transfer_free(nullptr), "dit_transfer_free");
      case 6: {
        dit_rank_part part{};
        part.struct_size = sizeof part;
        return must_fail(dit_layout_part(layout_, case_.ranks, 0, 1, &part), "dit_layout_part");
      }
      case 7:
        if (ways_.empty()) return;
        return must_fail(dit_transfer_test(ways_.front().transfer, nullptr), "dit_transfer_test");
      default: {
        dit_session* none = nullptr;
        return must_fail(dit_session_open("no/such/plugin", nullptr, &none), "dit_session_open");
      }
    }
  }

  void schedule() {
    const char* const names[] = {"flat", "v-first", "pipelined", "no such order"};
    dit_schedule_options options{};
    options.struct_size = sizeof options;
    options.name = names[numbers_.up_to(3)];
    options.layers = numbers_.up_to(4);
    options.units = numbers_.up_to(2);
    options.groups = numbers_.up_to(3);
    options.scores = numbers_.up_to(1);
    dit_schedule* schedule = nullptr;
    const bool right =
        options.name != names[3] && options.layers >= 1 && options.units >= 1 && options.groups >= 1;
    require_status(right, dit_schedule_create(&options, &schedule), "dit_schedule_create");
    if (!right) return;
    const dit_action* actions = nullptr;
    std::size_t count = 0;
    must_work(dit_schedule_actions(schedule, &actions, &count), "dit_schedule_actions");
    check_actions({actions, actions + count}, options);
    must_work(dit_schedule_free(&schedule), "dit_schedule_free");
  }

  /// What is started is waited for, once, and later.
  static void check_actions(const std::vector<dit_action>& actions, const dit_schedule_options& options) {
    std::vector<dit_action> under_way;
    for (const dit_action& action : actions) {
      fuzz::require(
          action.layer < options.layers && action.unit < options.units && action.group < options.groups,
          "an action is of the run");
      const auto same = [&](const dit_action& other) {
        return other.role == action.role && other.layer == action.layer && other.unit == action.unit &&
               other.group == action.group;
      };
      if (action.kind == DIT_ACTION_START) under_way.push_back(action);
      if (action.kind == DIT_ACTION_WAIT)
        fuzz::require(std::erase_if(under_way, same) == 1, "what is waited for was started, once");
    }
    fuzz::require(under_way.empty(), "what was started is waited for");
  }

  const Case& case_;
  int rank_;
  fuzz::Numbers numbers_;
  dit_session* session_ = nullptr;
  dit_layout* layout_ = nullptr;
  dit_status layout_status_ = DIT_OK;
  std::vector<Way> ways_;
  std::vector<std::vector<std::uint8_t>> workspaces_;
};

Case case_of(fuzz::Numbers& numbers) {
  Case made;
  made.ranks = 1 + numbers.up_to(2);
  made.per_node = numbers.up_to(2);
  made.shape.struct_size = sizeof made.shape;
  made.shape.batch = 1 + numbers.up_to(1);
  made.shape.text_tokens = numbers.up_to(3);
  made.shape.image_tokens = numbers.up_to(7);
  made.shape.kv_heads = 1 + numbers.up_to(2);
  made.shape.heads = made.shape.kv_heads * (1 + numbers.up_to(2));
  made.shape.head_dim = 1 + numbers.up_to(3);
  made.shape.flags = static_cast<unsigned>(numbers.up_to(8));
  return made;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Numbers numbers(data, size);
  const Case made = case_of(numbers);
  dit_local_group* group = nullptr;
  must_work(dit_local_group_create(made.ranks, made.per_node, &group), "dit_local_group_create");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < made.ranks; ++rank)
    threads.emplace_back([&, rank] { Rank(made, group, rank, numbers).run(); });
  for (std::thread& thread : threads) thread.join();
  must_work(dit_local_group_free(&group), "dit_local_group_free");
  return 0;
}
