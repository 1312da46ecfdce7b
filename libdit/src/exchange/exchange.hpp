/// Exchange plugins from C++: loading by name, and contexts and requests with owners. Errors are
/// ExchangeError.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dit/exchange.h"

namespace dit {

/// A plugin that failed, with its own words.
class ExchangeError : public std::runtime_error {
 public:
  ExchangeError(dit_status status, const std::string& what) : std::runtime_error(what), status_(status) {}
  [[nodiscard]] dit_status status() const { return status_; }

 private:
  dit_status status_;
};

/// A loaded plugin. Stays loaded to the program's end (MPI libraries cannot be unloaded).
class ExchangePlugin {
 public:
  /// One that is linked in ("local", see linked_plugins.hpp), a name (libdit-exchange-NAME.so on the search
  /// path) or a path with a slash. The search path: DIT_PLUGIN_PATH (colon-separated), the folder of the
  /// program and ../lib of it, the folder of libdit, the install folder. The first file of that name counts,
  /// whether it can be loaded or not. Throws ExchangeError that lists the places looked at, or says what
  /// dlopen said; also for a missing entry function, another interface version, a null function in the table.
  [[nodiscard]] static ExchangePlugin load(std::string_view name);
  /// One that is linked in; checked in the same way.
  [[nodiscard]] static ExchangePlugin linked(dit_exchange_entry entry);
  /// Names of the plugins that can be found, sorted.
  [[nodiscard]] static std::vector<std::string> available();

  [[nodiscard]] const dit_exchange_plugin& table() const { return *table_; }
  [[nodiscard]] std::string name() const { return table_->name; }
  [[nodiscard]] const std::string& path() const { return path_; }  ///< "" when linked in

 private:
  ExchangePlugin(const dit_exchange_plugin* table, std::string path)
      : table_(table), path_(std::move(path)) {}

  const dit_exchange_plugin* table_;
  std::string path_;
};

/// What an exchange keeps until it is done. Made before it begins, as there may be no memory later.
struct KeptBuffers {
  std::shared_ptr<void> buffers;
  std::unique_ptr<KeptBuffers> more;
};

/// An exchange under way. Waits when destroyed, so that buffers outlive it if they are declared before it;
/// when that wait fails the exchange is cancelled (a late rank would write into buffers that are gone, so
/// give them to keep_alive where that may happen). Must not outlive its context.
class ExchangeRequest {
 public:
  ExchangeRequest() = default;
  ExchangeRequest(ExchangeRequest&& other) noexcept;
  ExchangeRequest& operator=(ExchangeRequest&& other) noexcept;
  ~ExchangeRequest();
  [[nodiscard]] bool test();
  /// Throws ExchangeError. While active() is true after that the exchange is under way: wait again, test, or
  /// cancel.
  void wait();
  [[nodiscard]] bool active() const { return request_ != nullptr; }

  /// What the buffers belong to: kept until the exchange is done, also when it is given up.
  void keep_alive(std::shared_ptr<void> buffers);
  /// The same beside what is kept already.
  void also_keep_alive(std::unique_ptr<KeptBuffers> buffers) noexcept;
  /// Gives the exchange up. The buffers given here or to keep_alive live until they are no longer used: for
  /// good with plugins that cannot say when that is, and with ranks that never come.
  void cancel();
  void cancel(std::shared_ptr<void> buffers);
  /// What is put into a device stream afterwards sees what was received. Throws ExchangeError, with
  /// DIT_ERROR_UNSUPPORTED for plugins of host memory only.
  void wait_stream(void* stream);

 private:
  friend class ExchangeContext;
  friend class RegisteredMemory;
  ExchangeRequest(const dit_exchange_plugin& table, dit_context* context, std::shared_ptr<void> buffers)
      : table_(&table), context_(context) {
    if (buffers != nullptr) keep_alive(std::move(buffers));
  }
  void finish() noexcept;
  void settle(dit_status status, const char* function);

  const dit_exchange_plugin* table_ = nullptr;
  dit_context* context_ = nullptr;
  dit_request* request_ = nullptr;
  std::unique_ptr<KeptBuffers> buffers_;
};

/// Memory that a plugin has prepared for exchanges; nothing with plugins that prepare none. Ends when
/// destroyed, which is collective. Must not outlive its context.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(RegisteredMemory&& other) noexcept;
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;
  ~RegisteredMemory();
  [[nodiscard]] bool active() const { return memory_ != nullptr; }

  /// As of dit_exchange_plugin, where ExchangeContext::takes_stores. Throw ExchangeError.
  [[nodiscard]] void* peer_memory(int rank) const;
  void begin_stores(void* stream) const;
  [[nodiscard]] ExchangeRequest end_stores(void* stream) const;

 private:
  friend class ExchangeContext;
  void end() noexcept;

  const dit_exchange_plugin* table_ = nullptr;
  dit_context* context_ = nullptr;
  dit_memory* memory_ = nullptr;
};

/// One group of ranks.
class ExchangeContext {
 public:
  struct Options {
    void* communicator = nullptr;
    double timeout_seconds = 0;
    std::string config;
  };
  ExchangeContext(const ExchangePlugin& plugin, const Options& options);
  ExchangeContext(ExchangeContext&& other) noexcept;
  ExchangeContext& operator=(ExchangeContext&& other) noexcept;
  ~ExchangeContext();  ///< closes; an error is logged
  void close();        ///< collective; afterwards only good for destruction

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] std::vector<std::string> levels() const;  ///< names, fast to slow
  [[nodiscard]] int level_of(int peer) const;
  [[nodiscard]] int slow_level() const;
  [[nodiscard]] bool leaves_node() const;  ///< whether some rank is at slow_level or beyond
  [[nodiscard]] int level_named(std::string_view name) const;  ///< throws ExchangeError that lists the names

  /// struct_size is filled in. `buffers`, if any, is kept as ExchangeRequest::keep_alive does, also when a
  /// blocking exchange fails.
  [[nodiscard]] ExchangeRequest start(dit_exchange_call call, std::shared_ptr<void> buffers = nullptr);
  /// The first of `count` layout ids that no other exchange of this context uses. All ranks must take as many
  /// in the same order, and then give the same ids to the same exchanges.
  [[nodiscard]] std::uint64_t take_layout_ids(std::uint64_t count);
  /// Blocking. When it throws because a rank is late the exchange is cancelled; without `buffers` the call's
  /// must then stay until the context is closed.
  void exchange(dit_exchange_call call, std::shared_ptr<void> buffers = nullptr);
  /// A channel for dit_exchange_call::channel, see dit/exchange.h. Collective; 0, the channel that is always
  /// there, with plugins that have no others.
  [[nodiscard]] int open_channel();
  /// Whether calls may have send_strided and recv_strided. The same on all ranks.
  [[nodiscard]] bool takes_strided(int memory_kind = DIT_MEMORY_HOST) const;
  /// Whether the plugin exchanges memory of devices at all, as far as its table tells.
  [[nodiscard]] bool moves_device_memory() const;
  /// Whether kernels of this side may store into the memory of other ranks. The same on all ranks.
  [[nodiscard]] bool takes_stores() const;
  /// See dit_exchange_plugin::register_memory. Collective.
  [[nodiscard]] RegisteredMemory register_memory(void* pointer, std::size_t bytes,
                                                 dit_memory_kind kind = DIT_MEMORY_HOST, int device = 0);
  /// As of dit_exchange_plugin; nothing with plugins that have no such functions, and where no device memory
  /// was exchanged. Throw ExchangeError.
  void give_up(const std::string& why);
  void restart();
  void require_good();  ///< `check`
  void barrier();       ///< an exchange of one byte with everybody
  /// What every rank gives, concatenated in rank order. All ranks must give the same number of bytes. An
  /// exchange of the channel.
  [[nodiscard]] std::vector<std::byte> all_gather(std::span<const std::byte> own, int channel = 0);
  /// Same message on all ranks when any rank has one ("" means none): "rank 3: ...", of the first rank that
  /// has one, with the number of other ranks that have one too; the bare message where there is one rank
  /// only. Keeps a rank's error from leaving the others waiting: every rank calls it after a step that may
  /// fail, then all throw or none.
  [[nodiscard]] std::string agree_on_error(std::string_view own);

  [[nodiscard]] std::unique_ptr<ExchangeContext> split(int colour, int key);  ///< null when colour < 0
  [[nodiscard]] dit_exchange_totals totals() const;
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] const ExchangePlugin& plugin() const { return plugin_; }
  [[nodiscard]] dit_context* handle() const { return context_; }  ///< for calls of plugin().table()
  [[noreturn]] void abort_job(int exit_code);

 private:
  explicit ExchangeContext(const ExchangePlugin& plugin) : plugin_(plugin) {}  // not open

  ExchangePlugin plugin_;
  dit_context* context_ = nullptr;
  std::uint64_t next_layout_id_ = std::uint64_t{1} << 32U;  // smaller ones are the caller's
};

}  // namespace dit
