// libdit's C interface as a sequence of calls by ranks that are threads. All ranks make the same calls, also
// the wrong ones; a model says which must succeed, and what every target must hold.
#include <dit/dit.h>

#include <thread>
#include <vector>

#include "c_calls.hpp"
#include "c_sessions.hpp"
#include "c_transfers.hpp"
#include "c_wires.hpp"
#include "fuzz.hpp"

namespace {

constexpr int kMostCalls = 40;
using fuzz::Case, fuzz::must_fail, fuzz::must_work, fuzz::require_status;

/// A rank: the same calls as all others.
class Rank {
 public:
  Rank(const Case& of, fuzz::Board& board, dit_local_group* group, int rank, fuzz::Numbers numbers)
      : numbers_(numbers), place_{of, board, rank, nullptr, nullptr} {
    dit_open_options open{};
    open.struct_size = sizeof open;
    open.timeout_seconds = 30;
    must_work(dit_local_group_member(group, rank, &open.communicator), "dit_local_group_member");
    must_work(dit_session_open("local", &open, &session_), "dit_session_open");
    const dit_status status = dit_layout_create(&of.shape, of.ranks, &layout_);
    fuzz::require((status == DIT_OK) == (layout_ != nullptr), "a layout, or an error");
    place_.session = session_;
    place_.layout = layout_;
  }

  void run() {
    sessions_.check_ranks();
    for (int call = 0; call < kMostCalls && !numbers_.empty(); ++call) step();
    if (!transfers_.empty() || !wires_.empty() || !sessions_.empty()) sessions_.require_open(&session_);
    transfers_.release_all();
    wires_.release_all();
    sessions_.release_all();
    must_work(dit_layout_free(&layout_), "dit_layout_free");
    must_work(dit_layout_free(&layout_), "dit_layout_free of null");
    must_work(dit_session_close(&session_), "dit_session_close");
    must_work(dit_session_close(&session_), "dit_session_close of null");
    transfers_.require_released();
  }

 private:
  void step() {
    constexpr int kSteps = 32;
    const int chosen = numbers_.up_to(kSteps - 1);
    if (chosen < 12)
      step_of_plain(chosen);
    else if (chosen < 22)
      step_of_wire(chosen);
    else
      step_of_session(chosen);
  }

  /// What inputs of all ages begin with.
  void step_of_plain(int chosen) {
    switch (chosen) {
      case 0:
      case 1:
        return transfers_.create(nullptr);
      case 2:
      case 3:
      case 4:
        return transfers_.start();
      case 5:
      case 6:
        return transfers_.wait();
      case 7:
        return transfers_.test();
      case 8:
        return transfers_.release();
      case 9:
        return transfers_.use_workspace();
      case 10:
        return misuse();
      default:
        return schedule();
    }
  }

  void step_of_wire(int chosen) {
    switch (chosen) {
      case 12:
        return wires_.create();
      case 13:
        return wires_.ask();
      case 14:
        return wires_.choose_rows();
      case 15:
        return wires_.release();
      case 16:
      case 17:
        return transfers_.create(wires_.choose());
      case 18:
        return wires_.create_wrong();
      case 19:
      case 20:
        return transfers_.start();
      default:
        return transfers_.wait();
    }
  }

  void step_of_session(int chosen) {
    switch (chosen) {
      case 22:
        return transfers_.cancel();
      case 23:
        return transfers_.ask();
      case 24:
        return transfers_.start_together();
      case 25:
        return transfers_.bind(sessions_.registration());
      case 26:
        return sessions_.split();
      case 27:
        return numbers_.coin() ? sessions_.add_registration() : sessions_.free_registration();
      case 28:
        sessions_.ask_totals();
        return transfers_.start_counted();
      case 29:
        sessions_.ask_levels();
        return sessions_.exchange_by_plugin();
      case 30:
        sessions_.ask_library();
        return sessions_.close_part();
      default:
        transfers_.misuse();
        wires_.misuse();
        return sessions_.misuse();
    }
  }

  /// Local calls with something wrong in them; nothing changes.
  void misuse() {
    int number = 7;
    switch (numbers_.up_to(8)) {
      case 0:
        return must_fail(dit_session_ranks(nullptr, &number, &number), "dit_session_ranks");
      case 1:
        return must_fail(dit_session_ranks(session_, nullptr, &number), "dit_session_ranks");
      case 6: {
        dit_rank_part part{};
        part.struct_size = sizeof part;
        return must_fail(dit_layout_part(layout_, place_.of.ranks, 0, 1, &part), "dit_layout_part");
      }
      case 8: {
        dit_session* none = nullptr;
        return must_fail(dit_session_open("no/such/plugin", nullptr, &none), "dit_session_open");
      }
      default:
        return transfers_.misuse();
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

  fuzz::Numbers numbers_;
  fuzz::Place place_;
  dit_session* session_ = nullptr;
  dit_layout* layout_ = nullptr;
  fuzz::Transfers transfers_{place_, numbers_};
  fuzz::Wires wires_{place_, numbers_};
  fuzz::Sessions sessions_{place_, numbers_};
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
  fuzz::Board board;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < made.ranks; ++rank)
    threads.emplace_back([&, rank] { Rank(made, board, group, rank, numbers).run(); });
  for (std::thread& thread : threads) thread.join();
  must_work(dit_local_group_free(&group), "dit_local_group_free");
  must_work(dit_set_log(nullptr, nullptr), "dit_set_log");
  return 0;
}
