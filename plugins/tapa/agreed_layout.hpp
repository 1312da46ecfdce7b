/// Layouts that all ranks have agreed on, as selections of libtapa that select nothing: every rank then knows
/// the size of every block. An exchange of such a layout asks nobody, and its plan is the one for its own
/// sizes; without, libtapa must guess from the sizes of earlier calls.
#pragma once

#include <tapa/tapa.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "dit/exchange.h"

namespace dit {

/// One layout. agree() before it is used.
class AgreedLayout {
 public:
  AgreedLayout(std::uint64_t id, const dit_exchange_call& call, std::size_t size);
  ~AgreedLayout();
  AgreedLayout(const AgreedLayout&) = delete;
  AgreedLayout& operator=(const AgreedLayout&) = delete;

  [[nodiscard]] std::uint64_t id() const { return id_; }
  /// Throws PluginFailure when the blocks of a call are not those of this layout.
  void check(const dit_exchange_call& call) const;
  [[nodiscard]] bool agreed() const { return agreed_; }
  /// Collective; nothing when it is done. `everywhere` is the name of the slowest level. Throws
  /// PluginFailure.
  void agree(MPI_Comm comm, const std::string& everywhere);
  [[nodiscard]] TAPA_Selection selection() const { return selection_; }

 private:
  std::uint64_t id_;
  std::vector<int> send_bytes_, recv_bytes_;
  TAPA_Selection selection_ = TAPA_SELECTION_NULL;
  std::atomic<bool> agreed_{false};
};

/// The layouts used last. All ranks ask for them in the same order, so all forget the same ones.
class AgreedLayouts {
 public:
  /// The layout of a call with an id; throws PluginFailure as check() does.
  [[nodiscard]] std::shared_ptr<AgreedLayout> of(const dit_exchange_call& call, std::size_t size);

 private:
  static constexpr std::size_t kMost = 64;
  std::list<std::shared_ptr<AgreedLayout>> layouts_;  ///< last used first
};

}  // namespace dit
