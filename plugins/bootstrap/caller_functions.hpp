/// The functions that the program gave, with words for what goes wrong in them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "dit/bootstrap.h"

namespace dit {

/// Bytes for each rank, or from each, as an alltoallv takes them.
struct PeerBytes {
  std::span<const std::size_t> bytes;    ///< 0 for the rank itself
  std::span<const std::size_t> offsets;  ///< from the begin of the buffer
};

/// By one thread at a time. Functions throw PluginFailure (DIT_ERROR_COMMUNICATION) when the program's fail.
/// Where there is one rank the program's are not called.
class CallerFunctions {
 public:
  /// Throws PluginFailure (DIT_ERROR_ARGUMENT) when the struct makes no sense. `node`, `reach`: where it
  /// gives none.
  CallerFunctions(const dit_bootstrap& given, const std::string& node, const std::string& reach = {});
  ~CallerFunctions();  ///< releases
  CallerFunctions(const CallerFunctions&) = delete;
  CallerFunctions& operator=(const CallerFunctions&) = delete;
  /// They are the program's again: `release` is not called.
  void give_back() { given_.release = nullptr; }

  [[nodiscard]] int rank() const { return given_.rank; }
  [[nodiscard]] int size() const { return given_.size; }
  [[nodiscard]] const std::string& node() const { return node_; }
  [[nodiscard]] const std::string& reach() const { return reach_; }
  [[nodiscard]] bool on_device() const { return given_.on_device != 0; }
  [[nodiscard]] int device() const { return given_.device; }
  [[nodiscard]] bool has_alltoallv() const { return given_.alltoallv != nullptr; }
  [[nodiscard]] bool makes_parts() const { return given_.make_part != nullptr || size() == 1; }

  /// `all` has size * bytes bytes.
  void allgather(const void* mine, void* all, std::size_t bytes);
  /// Only where has_alltoallv().
  void alltoallv(const void* send, const PeerBytes& to, void* recv, const PeerBytes& from);
  /// Only where makes_parts(); nothing where this rank is none of `ranks`.
  [[nodiscard]] std::optional<dit_bootstrap> make_part(std::span<const int> ranks);

 private:
  [[noreturn]] void fail(const char* function, int code) const;

  dit_bootstrap given_;
  std::string node_;
  std::string reach_;
};

/// The machine's boot id, or its name where there is none.
[[nodiscard]] std::string this_node();

}  // namespace dit
