#include "c_wires.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace fuzz {
namespace {

constexpr std::size_t kMostWires = 2;

void release_wire(WireState& wire) {
  must_work(dit_wire_free(&wire.wire), "dit_wire_free");
  require(wire.wire == nullptr, "a freed handle is null");
  must_work(dit_wire_free(&wire.wire), "dit_wire_free of null");
}

std::string text_of(const dit_wire* wire) {
  std::size_t length = 0;
  must_work(dit_wire_text(wire, nullptr, 0, &length), "dit_wire_text");
  std::string text(length + 1, 'x');
  must_work(dit_wire_text(wire, text.data(), text.size(), nullptr), "dit_wire_text");
  require(text.back() == '\0' && text.find('\0') == length, "a text is as long as it says");
  text.pop_back();
  return text;
}

}  // namespace

dit_wire_options Wires::options_of(const WireState& wire) const {
  dit_wire_options options{};
  options.struct_size = sizeof options;
  options.policy = wire.policy->text;
  options.layers = wire.layers;
  options.steps = wire.steps;
  options.branches = wire.branches;
  options.groups = wire.groups;
  options.element_type = wire.element_type;
  if (wire.off) options.off = place_.of.per_node > 0 ? "node,world" : "world";
  return options;
}

void Wires::create() {
  const auto made = std::make_shared<WireState>();
  made->policy = &policy_choice(numbers_.byte() % policy_choices());
  const int shape = numbers_.byte();
  made->layers = 1 + shape % 3;
  made->steps = 1 + shape / 4 % 8;
  made->branches = 1 + shape / 32 % 2;
  made->groups = 1 + shape / 64 % 2;
  const int element = numbers_.byte();
  made->element_type = element % 3;
  made->off = element >= 224;
  if (place_.layout == nullptr || wires_.size() >= kMostWires) return;
  const dit_wire_options options = options_of(*made);
  must_work(dit_wire_create(place_.session, place_.layout, &options, &made->wire), "dit_wire_create");
  made->number = ++made_;
  wires_.push_back(made);
}

/// Wrong on all ranks, or on one: it fails on all.
void Wires::create_wrong() {
  const int wrong = numbers_.up_to(15);
  const int who = numbers_.up_to(3);
  WireState right;
  right.policy = &policy_choice(1);
  dit_wire_options options = options_of(right);
  const dit_layout* layout = place_.layout;
  dit_wire* wire = nullptr;
  dit_wire** out = &wire;
  if (layout == nullptr || (who > 0 && who > place_.of.ranks)) return;
  if (who == 0 || who - 1 == place_.rank) {
    if (wrong == 0) options.policy = nullptr;
    if (wrong == 1) options.policy = "nonsense";
    if (wrong == 2) options.policy = "{\"format\": 5}";
    if (wrong == 3) options.policy = "@/no/such/file";
    if (wrong == 4) options.layers = 0;
    if (wrong == 5) options.steps = 0;
    if (wrong == 6) options.branches = 3;
    if (wrong == 7) options.groups = 0;
    if (wrong == 8) options.element_type = DIT_ELEMENT_8_BIT;
    if (wrong == 9) options.off = "nowhere";
    if (wrong == 10) options.struct_size = 3;
    if (wrong == 11) layout = nullptr;
    if (wrong == 12) out = nullptr;
    if (wrong == 13) options.layers = 1'000'001;
    if (wrong == 14) options.policy = "v-major:ratio=2";
    if (wrong == 15) options.element_type = 7;
  }
  must_fail(dit_wire_create(place_.session, layout, &options, out), "dit_wire_create");
  require(wire == nullptr, "a failed call leaves its outputs");
}

std::shared_ptr<WireState> Wires::choose() {
  const int chosen = numbers_.byte();
  return wires_.empty() ? nullptr : wires_[static_cast<std::size_t>(chosen) % wires_.size()];
}

/// Cut where there is less room, and read again as the same policy.
void Wires::check_text(const WireState& wire) {
  const std::string text = text_of(wire.wire);
  place_.board.agree(key_of(Topic::text, {wire.number}), reinterpret_cast<const std::uint8_t*>(text.data()),
                     text.size(), "a policy's text is the same on all ranks");
  const std::size_t room = 1 + static_cast<std::size_t>(numbers_.byte());
  std::string part(room + 1, 'x');
  std::size_t length = 0;
  must_work(dit_wire_text(wire.wire, part.data(), room, &length), "dit_wire_text");
  const std::size_t copied = std::min(room - 1, text.size());
  require(length == text.size() && part.compare(0, copied, text, 0, copied) == 0 && part[copied] == '\0' &&
              part[room] == 'x',
          "a text is cut to its room");
  dit_wire_options options = options_of(wire);
  options.policy = text.c_str();
  options.off = nullptr;  // it is in the text
  dit_wire* again = nullptr;
  must_work(dit_wire_create(place_.session, place_.layout, &options, &again), "dit_wire_create of a text");
  require(text_of(again) == text, "a policy is read as it was written");
  must_work(dit_wire_free(&again), "dit_wire_free");
}

void Wires::ask_of_level(const WireState& wire, int level) {
  double share = -1;
  int pays = -1;
  const bool right = level >= 0 && level < place_.of.levels();
  require_status(right, dit_wire_share(wire.wire, level, &share), "dit_wire_share");
  if (!right) {
    must_fail(dit_wire_pays(wire.wire, level, 1e9, &pays), "dit_wire_pays");
    require(share == -1 && pays == -1, "a failed call leaves its outputs");
    return;
  }
  require(share >= 0 && share <= 1, "a share is a share");
  const bool coded =
      !wire.off && (wire.policy->world ? level == place_.of.levels() - 1 : level >= place_.of.slow_level());
  require(coded || share == 1, "on fast links all of it travels");
  for (const double wrong : {0.0, -1.0, std::nan("")})
    must_fail(dit_wire_pays(wire.wire, level, wrong, &pays), "dit_wire_pays");
  require(pays == -1, "a failed call leaves its outputs");
  const bool times = numbers_.byte() % 8 == 1;
  if (place_.rank > 0 || !times || std::exchange(timed_, true)) return;  // it takes long
  must_work(dit_wire_pays(wire.wire, level, 1, &pays), "dit_wire_pays");
  require(pays == 1 || (share == 1 && pays == 0), "at a byte a second all coding pays that saves some");
}

void Wires::ask() {
  const std::shared_ptr<WireState> wire = choose();
  const int level = numbers_.up_to(3) - 1;
  if (wire == nullptr) return;
  std::uint64_t bytes = 7;
  must_work(dit_wire_memory_bytes(wire->wire, &bytes), "dit_wire_memory_bytes");
  require(bytes == 0 || (wire->policy->remembers && !wire->off) || wire->policy->guard,
          "what remembers nothing takes no memory");
  ask_of_level(*wire, level);
  check_text(*wire);
  check_steps(*wire);
}

/// Which steps code alike, on all ranks the same; and what nobody follows yet has nothing to forget.
void Wires::check_steps(WireState& wire) {
  const int step = numbers_.up_to(9) - 1, branch = numbers_.up_to(2);
  const bool right = step >= 0 && step < wire.steps && branch < 2;
  int first = 7;
  require_status(right, dit_wire_first_alike(wire.wire, step, branch, &first), "dit_wire_first_alike");
  must_fail(dit_wire_replayed(wire.wire, 2), "dit_wire_replayed");
  require(right ? first >= -1 && first <= step : first == 7, "the first step that codes alike");
  if (wire.transfers > 0) return;
  must_work(dit_wire_replayed(wire.wire, branch % 2), "dit_wire_replayed");
  must_work(dit_wire_forget(wire.wire, nullptr), "dit_wire_forget");
  for (WireState::Visit& visit : wire.visits) visit = {};
}

/// Of V as it lies in the sequence layout. No rank waits for another.
void Wires::choose_rows() {
  const std::shared_ptr<WireState> wire = choose();
  const int where = numbers_.byte();
  const int fault = numbers_.up_to(9);
  if (wire == nullptr) return;
  dit_rank_part part{};
  part.struct_size = sizeof part;
  must_work(dit_layout_part(place_.layout, place_.rank, 0, 1, &part), "dit_layout_part");
  const std::size_t numbers = static_cast<std::size_t>(place_.of.shape.batch * part.sequence_rows *
                                                       place_.of.shape.kv_heads * place_.of.shape.head_dim);
  std::vector<std::uint8_t> value(numbers * wire->element_bytes());
  for (std::size_t i = 0; i < numbers; ++i)
    store_number(static_cast<int>(i % 17) + where % 8, wire->element_type,
                 value.data() + i * wire->element_bytes());
  const WireState::Visited at{fault == 1 ? wire->layers : where % wire->layers,
                              fault == 2 ? -1 : where / 4 % wire->steps, fault == 3 ? 2 : where / 32 % 2};
  const dit_tensor tensor{value.data(), value.size() + (fault == 4 ? 1 : 0), 0, 0, 0};
  const bool right = fault == 0 || fault > 4;
  require_status(right,
                 dit_wire_choose_rows(wire->wire, std::get<0>(at), std::get<1>(at), std::get<2>(at), &tensor),
                 "dit_wire_choose_rows");
  if (!right || !wire->policy->v_major) return;
  WireState::Visit& visit = wire->visits[wire->slot(std::get<2>(at))];
  const bool over = visit.taken.size() == 3 * static_cast<std::size_t>(wire->groups);
  if (!visit.any || visit.place != at || over) visit = {true, at, {}};
}

/// Refused while transfers follow it.
void Wires::release() {
  const std::shared_ptr<WireState> wire = choose();
  if (wire == nullptr) return;
  if (wire->transfers > 0) {
    dit_wire* const before = wire->wire;
    must_fail(dit_wire_free(&wire->wire), "dit_wire_free with transfers");
    require(wire->wire == before, "a failed call leaves its outputs");
    return;
  }
  release_wire(*wire);
  std::erase(wires_, wire);
}

void Wires::release_all() {
  for (const std::shared_ptr<WireState>& wire : wires_) release_wire(*wire);
  wires_.clear();
}

void Wires::misuse() {
  std::uint64_t bytes = 7;
  std::size_t length = 7;
  double share = 7;
  int pays = 7;
  const dit_tensor tensor{};
  must_fail(dit_wire_free(nullptr), "dit_wire_free");
  must_fail(dit_wire_memory_bytes(nullptr, &bytes), "dit_wire_memory_bytes");
  must_fail(dit_wire_text(nullptr, nullptr, 0, &length), "dit_wire_text");
  must_fail(dit_wire_share(nullptr, 0, &share), "dit_wire_share");
  must_fail(dit_wire_pays(nullptr, 0, 1, &pays), "dit_wire_pays");
  must_fail(dit_wire_choose_rows(nullptr, 0, 0, 0, &tensor), "dit_wire_choose_rows");
  int first = 7;
  must_fail(dit_wire_forget(nullptr, nullptr), "dit_wire_forget");
  must_fail(dit_wire_first_alike(nullptr, 0, 0, &first), "dit_wire_first_alike");
  must_fail(dit_wire_replayed(nullptr, 0), "dit_wire_replayed");
  require(first == 7, "a failed call leaves its outputs");
  require(bytes == 7 && length == 7 && share == 7 && pays == 7, "a failed call leaves its outputs");
  if (wires_.empty()) return;
  const dit_wire* const wire = wires_.front()->wire;
  must_fail(dit_wire_memory_bytes(wire, nullptr), "dit_wire_memory_bytes");
  must_fail(dit_wire_text(wire, nullptr, 5, nullptr), "dit_wire_text");
  must_fail(dit_wire_share(wire, 0, nullptr), "dit_wire_share");
  must_fail(dit_wire_pays(wire, 0, 1, nullptr), "dit_wire_pays");
  must_fail(dit_wire_first_alike(wire, 0, 0, nullptr), "dit_wire_first_alike");
  must_fail(dit_wire_choose_rows(wires_.front()->wire, 0, 0, 0, nullptr), "dit_wire_choose_rows");
}

}  // namespace fuzz
