// The functions of dit_torch.h.
#include <algorithm>
#include <stdexcept>

#include "c_interface/error.hpp"
#include "c_interface/handles.hpp"
#include "dit/bootstrap.h"
#include "dit_torch.h"
#include "exchange.hpp"
#include "exchange/linked_plugins.hpp"
#include "trial.hpp"

using dit::c_interface::guarded;
using dit::c_interface::read_struct;
using dit::c_interface::required;
using dit::operators::exchanges;
using dit::operators::Group;
using dit::operators::groups;

namespace {

std::string name_of(const char* given, const char* argument) {
  return &required(given, argument);
}

/// Makes a group or an exchange for a name that stays free when that fails.
template <typename Thing, typename Make>
void make_named(dit::operators::Names<Thing>& names, const std::string& name, const Make& make) {
  names.reserve(name);
  try {
    names.put(name, make());
  } catch (...) {
    (void)names.take(name);
    throw;
  }
}

void free_exchange(const std::string& name) {
  const std::shared_ptr<dit::operators::Exchange> freed = exchanges().take(name);
  if (freed != nullptr) std::erase(freed->group().exchanges, name);
}

void copy_sizes(const dit::operators::Sizes& from, std::int64_t* to) {
  std::ranges::copy(from, to);
}

}  // namespace

extern "C" {

int dit_torch_version(void) {
  return DIT_TORCH_VERSION;
}

const char* dit_torch_last_error(void) {
  return dit_last_error();
}

int dit_torch_open(const char* group, const struct dit_bootstrap* ranks, double timeout, const char* config) {
  return guarded(__func__, [&] {
    const std::string name = name_of(group, "group");
    (void)required(ranks, "ranks");
    make_named(groups(), name, [&] {
      dit_open_options options{};
      options.struct_size = sizeof options;
      options.communicator = const_cast<dit_bootstrap*>(ranks);  // the plugin only reads it
      options.timeout_seconds = timeout;
      options.config = config;
      dit::link_exchange_plugin("bootstrap", dit_exchange_bootstrap_plugin_v1);
      dit_session* session = nullptr;
      dit::operators::require_ok(dit_session_open("bootstrap", &options, &session));
      return std::make_shared<Group>(name, dit::operators::SessionHandle(session));
    });
  });
}

int dit_torch_attach(const char* group, dit_session* session) {
  return guarded(__func__, [&] {
    const std::string name = name_of(group, "group");
    dit_session& of_caller = required(session, "session");
    make_named(groups(), name, [&] { return std::make_shared<Group>(name, of_caller); });
  });
}

int dit_torch_close(const char* group) {
  return guarded(__func__, [&] {
    const std::string name = name_of(group, "group");
    if (!groups().has(name)) return;
    const std::shared_ptr<Group> closed = groups().get(name);
    while (!closed->exchanges.empty()) free_exchange(closed->exchanges.back());
    (void)groups().take(name);
    closed->close();
  });
}

int dit_torch_give_up(const char* group, const char* why) {
  return guarded(__func__,
                 [&] { groups().get(name_of(group, "group"))->context().give_up(name_of(why, "why")); });
}

int dit_torch_restart(const char* group) {
  return guarded(__func__, [&] {
    const std::shared_ptr<Group> of = groups().get(name_of(group, "group"));
    of->context().restart();
    for (const std::string& name : of->exchanges) exchanges().get(name)->restart();
  });
}

int dit_torch_check(const char* group) {
  return guarded(__func__, [&] { groups().get(name_of(group, "group"))->context().require_good(); });
}

int dit_torch_session(const char* group, dit_session** session) {
  return guarded(__func__, [&] {
    dit_session*& result = required(session, "session");
    result = &groups().get(name_of(group, "group"))->session();
  });
}

int dit_torch_exchange(const char* exchange, const char* group, const dit_torch_attention* attention) {
  return guarded(__func__, [&] {
    const std::string name = name_of(exchange, "exchange");
    const std::shared_ptr<Group> in = groups().get(name_of(group, "group"));
    const dit_torch_attention given = read_struct(attention, "attention", "dit_torch_attention");
    make_named(exchanges(), name,
               [&] { return std::make_shared<dit::operators::Exchange>(name, in, given); });
    in->exchanges.push_back(name);
  });
}

int dit_torch_exchange_free(const char* exchange) {
  return guarded(__func__, [&] { free_exchange(name_of(exchange, "exchange")); });
}

int dit_torch_try_policy(const char* group, const dit_torch_attention* attention, dit_torch_trial* trial) {
  return guarded(__func__, [&] {
    const std::shared_ptr<Group> in = groups().get(name_of(group, "group"));
    const dit_torch_attention given = read_struct(attention, "attention", "dit_torch_attention");
    const dit_torch_trial found = dit::operators::try_policy(*in, given);
    dit::c_interface::write_struct(found, trial, "trial", "dit_torch_trial");
  });
}

int dit_torch_exact_time(const char* group, const dit_torch_attention* attention, double enough,
                         double* seconds) {
  return guarded(__func__, [&] {
    const std::shared_ptr<Group> in = groups().get(name_of(group, "group"));
    const dit_torch_attention given = read_struct(attention, "attention", "dit_torch_attention");
    double& result = required(seconds, "seconds");
    result = dit::operators::exact_time(*in, given, enough);
  });
}

int dit_torch_wire_bytes(const char* group, const dit_torch_attention* attention, uint64_t* bytes) {
  return guarded(__func__, [&] {
    const std::shared_ptr<Group> in = groups().get(name_of(group, "group"));
    const dit_torch_attention given = read_struct(attention, "attention", "dit_torch_attention");
    std::uint64_t& result = required(bytes, "bytes");
    result = dit::operators::wire_bytes(*in, dit::operators::agreed_attention(*in, given));
    (void)in->newly_sent();  // by none of the group's exchanges
  });
}

int dit_torch_has_exchange(const char* exchange) {
  return exchange != nullptr && exchanges().has(exchange) ? 1 : 0;
}

int dit_torch_exchange_shape(const char* exchange, dit_torch_shape* shape) {
  return guarded(__func__, [&] {
    const auto of = exchanges().get(name_of(exchange, "exchange"));
    const dit::operators::Transfers& transfers = of->transfers();
    dit_torch_shape result{};
    copy_sizes(transfers.source(DIT_SCATTER_QUERY), result.sequence);
    copy_sizes(transfers.source(DIT_SCATTER_KEY), result.sequence_kv);
    copy_sizes(transfers.target(DIT_SCATTER_QUERY), result.query);
    copy_sizes(transfers.target(DIT_SCATTER_KEY), result.key);
    const dit::UlyssesLayout& layout = transfers.layout()->layout;
    const dit::Range text = layout.text_tokens(of->group().rank());
    const dit::Range image = layout.image_tokens(of->group().rank());
    result.text[0] = text.begin;
    result.text[1] = text.end;
    result.image[0] = image.begin;
    result.image[1] = image.end;
    dit::c_interface::write_struct(result, shape, "shape", "dit_torch_shape");
  });
}

int dit_torch_begin_step(const char* exchange, int step, int branch) {
  return guarded(__func__, [&] { exchanges().get(name_of(exchange, "exchange"))->begin_step(step, branch); });
}

int dit_torch_reset(const char* exchange) {
  return guarded(__func__, [&] { exchanges().get(name_of(exchange, "exchange"))->reset(); });
}

int dit_torch_phase(const char* exchange, int* phase) {
  return guarded(__func__, [&] {
    const auto of = exchanges().get(name_of(exchange, "exchange"));
    required(phase, "phase") = of->phase();
  });
}

int dit_torch_record(const char* exchange) {
  return guarded(__func__, [&] { exchanges().get(name_of(exchange, "exchange"))->begin_recording(); });
}

int dit_torch_recorded(const char* exchange, int failed, int* recording) {
  return guarded(__func__, [&] {
    const auto of = exchanges().get(name_of(exchange, "exchange"));
    required(recording, "recording") = of->end_recording(failed != 0);
  });
}

int dit_torch_replayed(const char* exchange, int recording) {
  return guarded(__func__, [&] { exchanges().get(name_of(exchange, "exchange"))->note_replay(recording); });
}

int dit_torch_report(const char* exchange, char* text, size_t bytes, size_t* length) {
  return guarded(__func__, [&] {
    const std::string full = exchanges().get(name_of(exchange, "exchange"))->report();
    dit::c_interface::write_text(full, text, bytes, length);
  });
}

int dit_torch_one_node(const char* group, int* one_node) {
  return guarded(__func__, [&] {
    const dit::ExchangeContext& context = groups().get(name_of(group, "group"))->context();
    required(one_node, "one_node") = context.leaves_node() ? 0 : 1;
  });
}

int dit_torch_describe(const char* group, char* text, size_t bytes, size_t* length) {
  return guarded(__func__, [&] {
    const std::string full = groups().get(name_of(group, "group"))->context().describe();
    dit::c_interface::write_text(full, text, bytes, length);
  });
}

}  // extern "C"
