#include "c_sessions.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

#include "transfer_model.hpp"

namespace fuzz {
namespace {

constexpr std::size_t kMost = 3;

/// Stays for the whole process: a line may still come to a log that was replaced.
std::atomic<int> lines{0};

void take_line(const char* line, void* user) {
  require(line != nullptr && *line != '\0' && std::strchr(line, '\n') == nullptr, "a warning is a line");
  require(user == &lines, "a log gets what it was set with");
  ++lines;
}

}  // namespace

void Sessions::check_ranks() const {
  int rank = -1, size = -1;
  must_work(dit_session_ranks(place_.session, &rank, &size), "dit_session_ranks");
  require(rank == place_.rank && size == place_.of.ranks, "a session's rank and size");
  must_work(dit_session_status(place_.session), "dit_session_status");
}

void Sessions::ask_levels() {
  const auto level = [&](const char* name) {
    int number = -7;
    const dit_status status = dit_session_level(place_.session, name, &number);
    require((status == DIT_OK) == (number != -7), "a level, or an error");
    return number;
  };
  const bool nodes = place_.of.per_node > 0;
  require(level("") == place_.of.slow_level(), "the first level that leaves a node");
  require(level("world") == place_.of.levels() - 1, "the slowest level");
  require(level("node") == (nodes ? 0 : -7), "a level of nodes where there are some");
  require(level("no such level") == -7, "no level by this name");
}

/// Into a struct of an older program, too.
void Sessions::ask_totals() {
  dit_exchange_totals whole{};
  whole.struct_size = sizeof whole;
  must_work(dit_session_totals(place_.session, &whole), "dit_session_totals");
  for (int level = place_.of.levels(); level < 16; ++level)
    require(whole.sent_bytes[level] == 0, "nothing is sent on levels that are not there");
  require(whole.wait_seconds >= 0, "waits take their time");
  dit_exchange_totals some;
  std::memset(&some, kUntouched, sizeof some);
  const std::size_t known = offsetof(dit_exchange_totals, sent_bytes) + 8;
  some.struct_size = known;
  must_work(dit_session_totals(place_.session, &some), "dit_session_totals of a smaller struct");
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&some);
  require(some.exchanges == whole.exchanges && some.sent_bytes[0] == whole.sent_bytes[0] &&
              some.struct_size == known,
          "a smaller struct has what it has room for");
  require(
      std::all_of(bytes + known, bytes + sizeof some, [](std::uint8_t byte) { return byte == kUntouched; }),
      "nothing is written behind a smaller struct");
  some.struct_size = 3;
  must_fail(dit_session_totals(place_.session, &some), "dit_session_totals");
}

/// An all-to-all of one's own, on a channel of one's own: rank r sends r, and to whom.
void Sessions::exchange_by_plugin() {
  const dit_exchange_plugin* plugin = nullptr;
  dit_context* context = nullptr;
  must_work(dit_session_plugin(place_.session, &plugin, &context), "dit_session_plugin");
  require(std::string_view(plugin->name) == "local" && plugin->rank(context) == place_.rank &&
              plugin->size(context) == place_.of.ranks,
          "the session's own plugin and context");
  int channel = -1;
  must_work(plugin->open_channel(context, &channel), "open_channel");
  const auto ranks = static_cast<std::size_t>(place_.of.ranks);
  std::vector<std::uint8_t> sent(ranks), came(ranks, kUntouched);
  std::vector<dit_block> blocks;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    sent[peer] = static_cast<std::uint8_t>(16 * static_cast<std::size_t>(place_.rank) + peer);
    blocks.push_back({peer, 1});
  }
  dit_exchange_call call{};
  call.struct_size = sizeof call;
  call.send = sent.data();
  call.recv = came.data();
  call.send_blocks = call.recv_blocks = blocks.data();
  call.channel = channel;
  dit_request* request = nullptr;
  must_work(plugin->start(context, &call, &request), "start of an exchange of one's own");
  must_work(plugin->wait(context, &request), "wait for an exchange of one's own");
  for (std::size_t peer = 0; peer < ranks; ++peer)
    require(came[peer] == 16 * peer + static_cast<std::size_t>(place_.rank), "every byte arrives");
}

/// A part is a session: something travels in it.
void Sessions::exchange_in(dit_session* part, int ranks, int rank) const {
  Case of = place_.of;
  of.ranks = ranks;
  dit_layout* layout = nullptr;
  if (dit_layout_create(&of.shape, ranks, &layout) != DIT_OK) return;
  Way way;
  way.kind = ranks % 4;
  way.element = 2;
  dit_transfer_options options{};
  options.struct_size = sizeof options;
  options.kind = way.kind;
  options.groups = 1;
  options.element_bytes = way.element;
  must_work(dit_transfer_create(part, layout, &options, &way.transfer), "dit_transfer_create in a part");
  std::size_t source = 0, target = 0;
  must_work(dit_transfer_bytes(way.transfer, &source, &target), "dit_transfer_bytes");
  way.source = Buffer(source);
  way.target = Buffer(target);
  const TransferModel model(of, layout, rank);
  model.fill(way);
  way.target.fill(kUntouched);
  dit_transfer_call call{};
  call.struct_size = sizeof call;
  call.source = {way.source.data(), source, 0, 0, 0};
  call.target = {way.target.data(), target, 0, 0, 0};
  must_work(dit_transfer_start(way.transfer, &call), "dit_transfer_start in a part");
  must_work(dit_transfer_wait(way.transfer), "dit_transfer_wait in a part");
  model.check(way);
  must_work(dit_transfer_free(&way.transfer), "dit_transfer_free");
  must_work(dit_layout_free(&layout), "dit_layout_free");
}

void Sessions::split() {
  const int colours = numbers_.byte(), keys = numbers_.byte(), wrong = numbers_.up_to(7);
  if (splits_ >= kMost) return;
  if (wrong > 0 && wrong <= place_.of.ranks) {
    dit_session* none = nullptr;
    must_fail(dit_session_split(place_.session, 0, 0, wrong - 1 == place_.rank ? nullptr : &none),
              "dit_session_split with a null on one rank");
    require(none == nullptr, "a failed call leaves its outputs");
    return;
  }
  ++splits_;
  const auto colour = [&](int rank) { return (colours >> 2 * rank & 3) - 1; };
  const auto key = [&](int rank) { return (keys >> 2 * rank & 3) - 2; };
  std::vector<int> members;
  for (int rank = 0; rank < place_.of.ranks; ++rank)
    if (colour(rank) == colour(place_.rank)) members.push_back(rank);
  std::ranges::stable_sort(members, {}, key);
  dit_session* part = place_.session;
  must_work(dit_session_split(place_.session, colour(place_.rank), key(place_.rank), &part),
            "dit_session_split");
  if (colour(place_.rank) < 0) {
    require(part == nullptr, "a colour below 0 has no session");
    return;
  }
  parts_.push_back(part);
  const auto own = static_cast<int>(std::ranges::find(members, place_.rank) - members.begin());
  int rank = -1, size = -1;
  must_work(dit_session_ranks(part, &rank, &size), "dit_session_ranks of a part");
  require(rank == own && size == static_cast<int>(members.size()), "a part has its colour's ranks by key");
  exchange_in(part, size, rank);
}

/// All of them: ranks may have different parts.
void Sessions::close_part() {
  for (dit_session*& part : parts_) {
    must_work(dit_session_close(&part), "dit_session_close of a part");
    require(part == nullptr, "a closed handle is null");
  }
  parts_.clear();
  splits_ = 0;
}

void Sessions::add_registration() {
  const int kind = numbers_.byte();
  const std::size_t bytes =
      static_cast<std::size_t>(numbers_.byte()) * static_cast<std::size_t>(place_.rank + 1);
  if (registrations_.size() >= kMost) return;
  memory_.emplace_back(bytes);
  dit_registration* made = nullptr;
  const bool right = kind < 200, on_one = kind >= 240;
  if (on_one) {  // it fails on all
    const bool own = kind % place_.of.ranks == place_.rank;
    must_fail(dit_session_register(place_.session, memory_.back().data(), bytes, DIT_MEMORY_HOST, 0,
                                   own ? nullptr : &made),
              "dit_session_register with a null on one rank");
    require(made == nullptr, "a failed call leaves its outputs");
    return;
  }
  const int memory_kind = right ? DIT_MEMORY_HOST : kind - 199;
  const dit_status status =
      dit_session_register(place_.session, memory_.back().data(), bytes, memory_kind, 0, &made);
  if (!right) {
    must_fail_with(DIT_ERROR_UNSUPPORTED, status, "dit_session_register of a device's memory");
    require(made == nullptr, "a failed call leaves its outputs");
    return;
  }
  must_work(status, "dit_session_register");
  registrations_.push_back(made);
}

void Sessions::free_registration() {
  if (registrations_.empty()) return;
  must_work(dit_registration_free(&registrations_.back()), "dit_registration_free");
  require(registrations_.back() == nullptr, "a freed handle is null");
  must_work(dit_registration_free(&registrations_.back()), "dit_registration_free of null");
  registrations_.pop_back();
}

void Sessions::ask_library() {
  const std::string version = std::to_string(DIT_VERSION_MAJOR) + "." + std::to_string(DIT_VERSION_MINOR) +
                              "." + std::to_string(DIT_VERSION_PATCH);
  require(version == dit_version(), "the version of the header");
  require(std::string(dit_wire_presets()).find("exact bf16") == 0, "names of presets");
  const bool own = numbers_.coin();
  must_work(dit_set_log(own ? take_line : nullptr, own ? &lines : nullptr), "dit_set_log");
}

void Sessions::misuse() {
  int number = 7;
  const dit_exchange_plugin* plugin = nullptr;
  dit_context* context = nullptr;
  dit_session* none = nullptr;
  dit_registration* registration = nullptr;
  dit_exchange_totals totals{};
  totals.struct_size = sizeof totals;
  must_fail(dit_session_level(nullptr, "", &number), "dit_session_level");
  must_fail(dit_session_level(place_.session, nullptr, &number), "dit_session_level");
  must_fail(dit_session_level(place_.session, "", nullptr), "dit_session_level");
  must_fail(dit_session_totals(nullptr, &totals), "dit_session_totals");
  must_fail(dit_session_status(nullptr), "dit_session_status");
  must_fail(dit_session_totals(place_.session, nullptr), "dit_session_totals");
  must_fail(dit_session_plugin(nullptr, &plugin, &context), "dit_session_plugin");
  must_fail(dit_session_plugin(place_.session, nullptr, &context), "dit_session_plugin");
  must_fail(dit_session_plugin(place_.session, &plugin, nullptr), "dit_session_plugin");
  must_fail(dit_session_split(nullptr, 0, 0, &none), "dit_session_split");
  must_fail(dit_session_split(place_.session, 0, 0, nullptr), "dit_session_split");
  must_fail(dit_session_register(nullptr, nullptr, 0, 0, 0, &registration), "dit_session_register");
  must_fail(dit_session_register(place_.session, nullptr, 0, 0, 0, nullptr), "dit_session_register");
  must_fail(dit_registration_free(nullptr), "dit_registration_free");
  must_fail(dit_session_close(nullptr), "dit_session_close");
  must_fail(dit_local_group_free(nullptr), "dit_local_group_free");
  require(
      number == 7 && plugin == nullptr && context == nullptr && none == nullptr && registration == nullptr,
      "a failed call leaves its outputs");
}

void Sessions::require_open(dit_session** session) const {
  dit_session* const before = *session;
  must_fail(dit_session_close(session), "dit_session_close of a session in use");
  require(*session == before, "a failed call leaves its outputs");
}

void Sessions::release_all() {
  close_part();
  while (!registrations_.empty()) free_registration();
}

}  // namespace fuzz
