// The C functions of an exchange over MPI: errors become a status and words.
#include <utility>

#include "common/context.hpp"
#include "exchange/check_call.hpp"
#include "exchange/plugin_guard.hpp"

// Each plugin defines what it is.
namespace dit {
extern const AllToAllKind plugin_kind;
}  // namespace dit

struct dit_context {
  std::unique_ptr<dit::MpiContext> inner;
};

namespace dit {
namespace {

std::string& last_words() {
  static thread_local std::string words;
  return words;
}

template <class Body>
dit_status answer(const Body& body) noexcept {
  return guarded(last_words(), body);
}

template <class T>
void require(const T* pointer, const char* name) {
  if (pointer == nullptr) throw PluginFailure(DIT_ERROR_ARGUMENT, std::string(name) + " is null");
}

MPI_Comm communicator_of(const dit_open_options& options) {
  if (options.communicator == nullptr) return MPI_COMM_WORLD;
  const MPI_Comm comm = *static_cast<const MPI_Comm*>(options.communicator);
  if (comm == MPI_COMM_NULL)
    throw PluginFailure(DIT_ERROR_ARGUMENT, "options.communicator is MPI_COMM_NULL, expected a communicator");
  int inter = 0;
  check_mpi(MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
  if (inter != 0)
    throw PluginFailure(DIT_ERROR_ARGUMENT,
                        "options.communicator is an intercommunicator, expected an intracommunicator");
  return comm;
}

// What is wrong with this rank's options.
std::string fault_of(const dit_open_options& options) {
  try {
    plugin_kind.read(options.config);
    return {};
  } catch (const ConfigError& e) {
    return e.what();
  }
}

dit_status open(const dit_open_options* options, dit_context** context) {
  return answer([&] {
    require_argument(check_open(options, context));
    *context = nullptr;
    MpiSession& session = MpiSession::require();
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(communicator_of(*options), &comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const char* config = options->config == nullptr ? "" : options->config;
    *context = new dit_context{std::make_unique<MpiContext>(
        plugin_kind, session, comm, ContextSettings{options->timeout_seconds, config}, fault_of(*options))};
  });
}

dit_status close(dit_context* context) {
  if (context == nullptr) return DIT_OK;
  const dit_status status = answer([&] { context->inner->close(); });
  context->inner->release_buffers();
  if (context->inner->failed()) {
    context->inner->abandon();
    static_cast<void>(context->inner.release());
  }
  delete context;
  return status;
}

int rank(const dit_context* context) {
  return context == nullptr ? -1 : context->inner->rank();
}

int size(const dit_context* context) {
  return context == nullptr ? 0 : context->inner->size();
}

int level_count(const dit_context* context) {
  return context == nullptr ? 0 : static_cast<int>(context->inner->levels().names.size());
}

const char* level_name(const dit_context* context, int level) {
  if (level < 0 || level >= level_count(context)) return nullptr;
  return context->inner->levels().names[static_cast<std::size_t>(level)].c_str();
}

int level_of(const dit_context* context, int peer) {
  if (peer < 0 || peer >= size(context)) return -1;
  return context->inner->levels().of[static_cast<std::size_t>(peer)];
}

int slow_level(const dit_context* context) {
  return context == nullptr ? 0 : context->inner->levels().slow;
}

// A call of a context: guarded, and followed by a look at what was cancelled.
template <class Body>
dit_status on_context(dit_context* context, const Body& body) noexcept {
  const dit_status status = answer([&] {
    require(context, "context");
    body(*context->inner);
  });
  if (context != nullptr) context->inner->release_buffers();
  return status;
}

dit_status start(dit_context* context, const dit_exchange_call* call, dit_request** request) {
  return on_context(context, [&](MpiContext& inner) {
    require(request, "request");
    *request = nullptr;
    require(call, "call");
    inner.start(*call, *request);
  });
}

dit_status test(dit_context* context, dit_request** request, int* done) {
  return on_context(context, [&](MpiContext& inner) {
    require(request, "request");
    require(done, "done");
    if (*request != nullptr) inner.test(*request);
    *done = *request == nullptr ? 1 : 0;
  });
}

dit_status wait(dit_context* context, dit_request** request) {
  return on_context(context, [&](MpiContext& inner) {
    require(request, "request");
    if (*request != nullptr) inner.wait(*request);
  });
}

dit_status cancel(dit_context* context, dit_request** request, dit_release release, void* user) {
  return on_context(context, [&](MpiContext& inner) {
    require(request, "request");
    if (*request != nullptr)
      inner.cancel(*request, release, user);
    else if (release != nullptr)
      release(user);
  });
}

dit_status wait_stream(dit_context* context, dit_request* request, void* stream) {
  return on_context(context, [&](MpiContext& inner) {
    if (request != nullptr) inner.wait_stream(request, stream);
  });
}

dit_status register_memory(dit_context* context, void* pointer, std::size_t bytes, int memory_kind,
                           int device, dit_memory** memory) {
  return on_context(context, [&](MpiContext& inner) {
    require(memory, "memory");
    *memory = nullptr;
    *memory = inner.register_memory(pointer, bytes, memory_kind, device);
  });
}

dit_status unregister_memory(dit_context* context, dit_memory** memory) {
  return on_context(context, [&](MpiContext& inner) {
    require(memory, "memory");
    if (*memory == nullptr) return;
    const std::unique_ptr<dit_memory> owner(std::exchange(*memory, nullptr));
    inner.unregister_memory(*owner);
  });
}

dit_status peer_memory(dit_context* context, const dit_memory* memory, int rank, void** begin) {
  return on_context(context, [&](MpiContext& inner) {
    require(memory, "memory");
    require(begin, "begin");
    *begin = inner.devices().peer_memory(*memory, rank);
  });
}

dit_status begin_stores(dit_context* context, const dit_memory* memory, void* stream) {
  return on_context(context, [&](MpiContext& inner) {
    require(memory, "memory");
    inner.devices().begin_stores(*memory, stream);
  });
}

dit_status end_stores(dit_context* context, const dit_memory* memory, void* stream, dit_request** request) {
  return on_context(context, [&](MpiContext& inner) {
    require(memory, "memory");
    require(request, "request");
    *request = nullptr;
    *request = inner.devices().end_stores(*memory, stream);
  });
}

dit_status open_channel(dit_context* context, int* channel) {
  return on_context(context, [&](MpiContext& inner) {
    require(channel, "channel");
    *channel = inner.open_channel();
  });
}

dit_status split(dit_context* context, int colour, int key, dit_context** result) {
  return answer([&] {
    require(context, "context");
    require(result, "result");
    *result = nullptr;
    if (auto part = context->inner->split(colour, key)) *result = new dit_context{std::move(part)};
  });
}

dit_status totals(const dit_context* context, dit_exchange_totals* totals) {
  return answer([&] {
    require(context, "context");
    require_argument(check_totals(totals));
    context->inner->totals(*totals);
  });
}

std::size_t describe(const dit_context* context, char* text, std::size_t bytes) {
  if (context == nullptr) return 0;
  return copy_text(context->inner->describe(), text, bytes);
}

const char* last_error(const dit_context*) {
  return last_words().c_str();
}

void abort_job(dit_context*, int exit_code) {
  int running = 0;
  int finalised = 0;
  if (MPI_Initialized(&running) == MPI_SUCCESS && MPI_Finalized(&finalised) == MPI_SUCCESS && running != 0 &&
      finalised == 0)
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

// Functions for what a kind cannot do are null.
template <class Function>
Function* given(bool has, Function* function) {
  return has ? function : nullptr;
}

}  // namespace
}  // namespace dit

extern "C" __attribute__((visibility("default"))) const dit_exchange_plugin* dit_exchange_plugin_v1(
    std::uint32_t wanted) {
  if (wanted != DIT_EXCHANGE_VERSION) return nullptr;
  static const bool devices = dit::plugin_kind.make_device != nullptr;
  static const bool stores = (dit::plugin_kind.capabilities & DIT_CAPABILITY_STORES) != 0;
  static const dit_exchange_plugin table = {sizeof(dit_exchange_plugin),
                                            DIT_EXCHANGE_VERSION,
                                            dit::plugin_kind.name,
                                            dit::plugin_kind.description,
                                            dit::open,
                                            dit::close,
                                            dit::rank,
                                            dit::size,
                                            dit::level_count,
                                            dit::level_name,
                                            dit::level_of,
                                            dit::slow_level,
                                            dit::start,
                                            dit::test,
                                            dit::wait,
                                            dit::split,
                                            dit::totals,
                                            dit::describe,
                                            dit::last_error,
                                            dit::abort_job,
                                            dit::cancel,
                                            dit::open_channel,
                                            dit::plugin_kind.capabilities,
                                            dit::given(devices, dit::register_memory),
                                            dit::given(devices, dit::unregister_memory),
                                            dit::given(devices, dit::wait_stream),
                                            dit::given(stores, dit::peer_memory),
                                            dit::given(stores, dit::begin_stores),
                                            dit::given(stores, dit::end_stores)};
  return &table;
}
