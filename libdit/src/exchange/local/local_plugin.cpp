// The C functions of the local exchange.
#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exchange/local/local_group.hpp"
#include "exchange/local/local_ranks.hpp"
#include "exchange/plugin_config.hpp"
#include "exchange/plugin_guard.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

using Clock = std::chrono::steady_clock;

// What a dit_request stands for.
struct LocalRequest {
  std::shared_ptr<LocalPart> part;
  bool cancelled = false;         // its buffers may be in use
  dit_release release = nullptr;  // once it is given up
  void* user = nullptr;
};

using LocalRequests = std::vector<std::unique_ptr<LocalRequest>>;

// What a dit_context stands for. C code knows it as the incomplete type, of which every plugin has its own.
struct LocalContext {
  LocalContext(std::shared_ptr<LocalGroup> in_group, int own_rank, double timeout)
      : group(std::move(in_group)), rank(own_rank), timeout_seconds(timeout), levels(group->levels_of(rank)) {
    group->enter(rank);
    totals.struct_size = sizeof(totals);
  }
  ~LocalContext() { group->leave(rank); }
  LocalContext(const LocalContext&) = delete;
  LocalContext& operator=(const LocalContext&) = delete;
  [[nodiscard]] ContextPlace place() const {
    return {rank, static_cast<int>(group->level_names().size()), levels, channels};
  }

  std::shared_ptr<LocalGroup> group;
  int rank;
  double timeout_seconds;
  std::vector<int> levels;
  std::uint64_t splits = 0;
  int channels = 1;
  mutable std::mutex mutex;  // guards what follows: channels may have a thread each
  dit_exchange_totals totals{};
  LocalRequests requests;  // under way, given up or not
};

// Words belong to a thread: contexts are used by one thread at a time, and failed opens have none.
std::string& last_words() {
  thread_local std::string words;
  return words;
}

LocalContext& self(dit_context* context) {
  if (context == nullptr) throw PluginFailure(DIT_ERROR_ARGUMENT, "context is null, expected one from open");
  return *reinterpret_cast<LocalContext*>(context);
}

const LocalContext& self(const dit_context* context) {
  return self(const_cast<dit_context*>(context));
}

dit_context* handle(std::unique_ptr<LocalContext> context) {
  return reinterpret_cast<dit_context*>(context.release());
}

// The lock is held.
LocalRequests::iterator find(LocalContext& context, const dit_request* request) {
  const auto found = std::ranges::find(context.requests, reinterpret_cast<const LocalRequest*>(request),
                                       &std::unique_ptr<LocalRequest>::get);
  if (found == context.requests.end() || (*found)->cancelled)
    throw PluginFailure(DIT_ERROR_ARGUMENT, "request is none of this context, expected one that start gave");
  return found;
}

void forget(LocalContext& context, const dit_request* request) {
  const std::scoped_lock lock(context.mutex);
  context.requests.erase(find(context, request));
}

void wait_for(LocalContext& context, LocalPart& part, Clock::time_point begin) {
  const auto count = [&](std::uint64_t finished) {
    const std::scoped_lock lock(context.mutex);
    context.totals.wait_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    context.totals.exchanges += finished;
  };
  try {
    context.group->wait(context.rank, part, LocalGroup::Seconds(context.timeout_seconds));
  } catch (...) {
    count(0);
    throw;
  }
  count(1);
}

// A cancelled one whose buffers are no longer used.
std::unique_ptr<LocalRequest> take_released(LocalContext& context) {
  const std::scoped_lock lock(context.mutex);
  const auto is_free = [&](const auto& request) {
    return request->cancelled && context.group->released(*request->part);
  };
  const auto found = std::ranges::find_if(context.requests, is_free);
  if (found == context.requests.end()) return nullptr;
  std::unique_ptr<LocalRequest> taken = std::move(*found);
  context.requests.erase(found);
  return taken;
}

// Tells the owners, one by one: there may be no memory for a list.
void release_buffers(LocalContext& context) noexcept {
  while (const auto request = take_released(context))
    if (request->release != nullptr) request->release(request->user);
}

// A call of a context: guarded, and followed by a look at what was cancelled.
template <typename Body>
dit_status on_context(dit_context* context, const Body& body) noexcept {
  const dit_status status = guarded(last_words(), [&] { body(self(context)); });
  if (context != nullptr) release_buffers(self(context));
  return status;
}

dit_status open(const dit_open_options* options, dit_context** context) {
  return guarded(last_words(), [&] {
    require_argument(check_open(options, context));
    const PluginConfig config(options->config, {});
    std::unique_ptr<LocalContext> opened;
    if (options->communicator == nullptr) {
      const dit_local_member alone = make_local_group({}).front();
      opened = std::make_unique<LocalContext>(alone.group, 0, options->timeout_seconds);
    } else {
      const auto& member = *static_cast<const dit_local_member*>(options->communicator);
      if (member.group == nullptr || member.rank < 0 || member.rank >= member.group->size())
        throw PluginFailure(
            DIT_ERROR_ARGUMENT,
            "options.communicator is not a member of a local group: rank " + std::to_string(member.rank));
      opened = std::make_unique<LocalContext>(member.group, member.rank, options->timeout_seconds);
    }
    *context = handle(std::move(opened));
  });
}

// Afterwards nobody touches the buffers of a request, whatever comes of it.
void finish(LocalContext& context, LocalPart& part) {
  try {
    context.group->wait(context.rank, part, LocalGroup::Seconds(context.timeout_seconds));
  } catch (const PluginFailure& failure) {
    if (failure.status() == DIT_ERROR_TIMEOUT) context.group->give_up(context.rank, part, failure.what());
    throw;
  }
}

// Every request is waited for, whatever comes of the ones before.
dit_status close(dit_context* context) {
  if (context == nullptr) return DIT_OK;
  return guarded(last_words(), [&] {
    const std::unique_ptr<LocalContext> closing(&self(context));
    std::exception_ptr first_error;
    for (const auto& request : closing->requests) {
      try {
        finish(*closing, *request->part);
      } catch (const PluginFailure&) {
        if (first_error == nullptr) first_error = std::current_exception();
      }
    }
    release_buffers(*closing);
    if (first_error != nullptr) std::rethrow_exception(first_error);
  });
}

int rank(const dit_context* context) {
  return context == nullptr ? -1 : self(context).rank;
}

int size(const dit_context* context) {
  return context == nullptr ? 0 : self(context).group->size();
}

int level_count(const dit_context* context) {
  return context == nullptr ? 0 : static_cast<int>(self(context).group->level_names().size());
}

const char* level_name(const dit_context* context, int level) {
  if (level < 0 || level >= level_count(context)) return nullptr;
  return self(context).group->level_names()[static_cast<std::size_t>(level)];
}

int level_of(const dit_context* context, int peer) {
  if (peer < 0 || peer >= size(context)) return -1;
  return self(context).levels[static_cast<std::size_t>(peer)];
}

int slow_level(const dit_context* context) {
  return context == nullptr ? 0 : self(context).group->slow_level();
}

// A request that is late stays; any other end of its wait is the request's end.
void wait_and_forget(LocalContext& local, dit_request*& request, Clock::time_point begin = Clock::now()) {
  try {
    wait_for(local, *reinterpret_cast<const LocalRequest*>(request)->part, begin);
  } catch (const PluginFailure& failure) {
    if (failure.status() != DIT_ERROR_TIMEOUT) forget(local, std::exchange(request, nullptr));
    throw;
  }
  forget(local, std::exchange(request, nullptr));
}

// Before it starts: nothing may fail afterwards.
dit_request* enlist(LocalContext& local, const std::shared_ptr<LocalPart>& part) {
  auto made = std::make_unique<LocalRequest>(LocalRequest{part});
  auto* const request = reinterpret_cast<dit_request*>(made.get());
  const std::scoped_lock lock(local.mutex);
  local.requests.push_back(std::move(made));
  return request;
}

dit_status start(dit_context* context, const dit_exchange_call* call, dit_request** request) {
  return on_context(context, [&](LocalContext& local) {
    if (request == nullptr)
      throw PluginFailure(DIT_ERROR_ARGUMENT, "request is null, expected where to put the request");
    *request = nullptr;
    const ContextPlace place = local.place();
    require_argument(check_call(call, place));
    const dit_exchange_call whole = completed(*call);
    if (const std::string words = check_host_memory(whole, "local"); !words.empty())
      throw PluginFailure(DIT_ERROR_UNSUPPORTED, words);

    const auto begin = Clock::now();
    const auto part = std::make_shared<LocalPart>(whole, place);
    dit_request* const started = enlist(local, part);
    try {
      local.group->start(local.rank, part);
    } catch (...) {
      forget(local, started);
      throw;
    }
    *request = started;
    {
      const std::scoped_lock lock(local.mutex);
      count_sent(whole, place, local.totals);
    }
    if ((whole.flags & DIT_EXCHANGE_BLOCKING) != 0) wait_and_forget(local, *request, begin);
  });
}

dit_status test(dit_context* context, dit_request** request, int* done) {
  return on_context(context, [&](LocalContext& local) {
    if (request == nullptr || done == nullptr)
      throw PluginFailure(DIT_ERROR_ARGUMENT, request == nullptr
                                                  ? "request is null, expected a pointer to one"
                                                  : "done is null, expected where to put the answer");
    *done = 1;
    if (*request == nullptr) return;
    if (local.group->done(*reinterpret_cast<const LocalRequest*>(*request)->part))
      wait_and_forget(local, *request);
    else
      *done = 0;
  });
}

dit_status wait(dit_context* context, dit_request** request) {
  return on_context(context, [&](LocalContext& local) {
    if (request == nullptr)
      throw PluginFailure(DIT_ERROR_ARGUMENT, "request is null, expected a pointer to one");
    if (*request != nullptr) wait_and_forget(local, *request);
  });
}

dit_status cancel(dit_context* context, dit_request** request, dit_release release, void* user) {
  return on_context(context, [&](LocalContext& local) {
    if (request == nullptr)
      throw PluginFailure(DIT_ERROR_ARGUMENT, "request is null, expected a pointer to one");
    if (*request == nullptr) {
      if (release != nullptr) release(user);
      return;
    }
    const std::scoped_lock lock(local.mutex);
    LocalRequest& given_up = **find(local, *request);
    given_up.cancelled = true;
    given_up.release = release;
    given_up.user = user;
    *request = nullptr;
  });
}

dit_status open_channel(dit_context* context, int* channel) {
  return on_context(context, [&](LocalContext& local) {
    if (channel == nullptr)
      throw PluginFailure(DIT_ERROR_ARGUMENT, "channel is null, expected where to put its number");
    *channel = local.channels++;
  });
}

struct ColourKey {
  int colour;
  int key;
};

// What every rank gave to split.
std::vector<ColourKey> gather_colours(LocalContext& local, ColourKey own) {
  const auto ranks = static_cast<std::size_t>(local.group->size());
  std::vector<ColourKey> all(ranks);
  std::vector<dit_block> send(ranks, dit_block{0, sizeof(own)}), recv;
  for (std::size_t rank = 0; rank < ranks; ++rank) recv.push_back({rank * sizeof(own), sizeof(own)});
  dit_exchange_call call{};
  call.send = &own;
  call.recv = all.data();
  call.send_blocks = send.data();
  call.recv_blocks = recv.data();
  call.label = "split";
  const auto part = std::make_shared<LocalPart>(call, local.place());
  local.group->start(local.rank, part);
  finish(local, *part);
  return all;
}

dit_status split(dit_context* context, int colour, int key, dit_context** result) {
  return guarded(last_words(), [&] {
    LocalContext& local = self(context);
    if (result == nullptr)
      throw PluginFailure(DIT_ERROR_ARGUMENT, "result is null, expected where to put the context");
    *result = nullptr;
    const std::vector<ColourKey> all = gather_colours(local, {colour, key});
    const std::uint64_t number = ++local.splits;
    if (colour < 0) return;
    std::vector<int> members;
    for (int rank = 0; rank < local.group->size(); ++rank)
      if (all[static_cast<std::size_t>(rank)].colour == colour) members.push_back(rank);
    std::ranges::stable_sort(members, {}, [&](int rank) { return all[static_cast<std::size_t>(rank)].key; });
    const auto place = std::ranges::find(members, local.rank) - members.begin();
    *result = handle(std::make_unique<LocalContext>(local.group->subgroup(number, colour, members),
                                                    static_cast<int>(place), local.timeout_seconds));
  });
}

dit_status totals(const dit_context* context, dit_exchange_totals* totals) {
  return guarded(last_words(), [&] {
    const LocalContext& local = self(context);
    require_argument(check_totals(totals));
    const std::scoped_lock lock(local.mutex);
    give(local.totals, *totals);
  });
}

dit_status check(dit_context* context) {
  return on_context(context, [](LocalContext& local) { local.group->require_good(); });
}

size_t describe(const dit_context* context, char* text, size_t bytes) {
  std::string words;
  const dit_status status = guarded(last_words(), [&] {
    const LocalContext& local = self(context);
    std::string levels;
    for (const char* name : local.group->level_names())
      levels += (levels.empty() ? "" : ", ") + std::string(name);
    words = "local: rank " + std::to_string(local.rank) + " of " + std::to_string(local.group->size()) +
            "; levels " + levels + "; threads of one process";
  });
  return status == DIT_OK ? copy_text(words, text, bytes) : 0;
}

const char* last_error(const dit_context* /*context*/) {
  return last_words().c_str();
}

// Here the job is one process: the other ranks' waits end, and the caller goes on to end the process.
void abort_job(dit_context* context, int exit_code) {
  if (context == nullptr) return;
  LocalContext& local = self(context);
  local.group->job().fail("rank " + std::to_string(local.rank) + " aborted the job with exit code " +
                          std::to_string(exit_code));
}

}  // namespace

extern "C" const dit_exchange_plugin* dit_exchange_local_plugin_v1(uint32_t wanted) {
  static constexpr dit_exchange_plugin table{sizeof(dit_exchange_plugin),
                                             DIT_EXCHANGE_VERSION,
                                             "local",
                                             "threads of one process, part of libdit",
                                             open,
                                             close,
                                             rank,
                                             size,
                                             level_count,
                                             level_name,
                                             level_of,
                                             slow_level,
                                             start,
                                             test,
                                             wait,
                                             split,
                                             totals,
                                             describe,
                                             last_error,
                                             abort_job,
                                             cancel,
                                             open_channel,
                                             DIT_CAPABILITY_STRIDED,
                                             nullptr,
                                             nullptr,
                                             nullptr,
                                             nullptr,
                                             nullptr,
                                             nullptr,
                                             nullptr,
                                             nullptr,
                                             check};
  return wanted == DIT_EXCHANGE_VERSION ? &table : nullptr;
}

}  // namespace dit
