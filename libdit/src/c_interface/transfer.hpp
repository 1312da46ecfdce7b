/// One tensor's way from one layout to the other: packing, the exchange, unpacking.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dit/dit.h"
#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "wire/row_selection.hpp"

namespace dit::c_interface {

class Transfer {
 public:
  /// Throws std::invalid_argument for options out of range.
  Transfer(ExchangeContext& context, const UlyssesLayout& layout, const dit_transfer_options& options);

  [[nodiscard]] std::size_t source_bytes() const { return source_.bytes; }
  [[nodiscard]] std::size_t target_bytes() const { return target_.bytes; }

  /// Sizes have been checked. `active` may be null.
  void start(const void* source, void* target, const dit_active_rows* active);
  [[nodiscard]] bool test();
  void wait();

 private:
  // A tensor's blocks, in itself where each is one piece, else in a buffer.
  struct Side {
    std::vector<PeerBlock> peers;
    std::vector<dit_block> blocks;
    std::vector<std::byte> buffer;
    std::size_t bytes = 0;  // of the tensor
    bool in_place = false;
  };
  [[nodiscard]] Side make_side(std::vector<PeerBlock> peers, std::int64_t tensor_elements) const;
  [[nodiscard]] const dit_row_selection* select(const dit_active_rows& active);
  void finish();

  ExchangeContext& context_;
  UlyssesLayout layout_;
  int kind_;
  int group_;
  int groups_;
  std::size_t element_bytes_;
  std::string label_;
  Side source_, target_;
  std::optional<RowSelection> selection_;  // made when first needed
  std::byte* unpack_to_ = nullptr;         // not null: the target of what is under way, to be unpacked
  bool under_way_ = false;
  ExchangeRequest request_;  // last: its end waits, and what is above must still be there
};

}  // namespace dit::c_interface
