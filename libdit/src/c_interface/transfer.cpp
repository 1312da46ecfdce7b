#include "c_interface/transfer.hpp"

#include <span>

#include "c_interface/error.hpp"
#include "c_interface/masks.hpp"
#include "wire/pack.hpp"

namespace dit::c_interface {
namespace {

void require_between(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) + ": expected " +
                                std::to_string(least) + " to " + std::to_string(most));
  }
}

AttentionTensor tensor_of(int kind) {
  return kind == DIT_SCATTER_QUERY ? AttentionTensor::query
         : kind == DIT_SCATTER_KEY ? AttentionTensor::key
                                   : AttentionTensor::value;
}

// Each rank's rows as flags, from the masks of all.
std::vector<RowFlags> to_flags(const UlyssesLayout& layout, const dit_active_rows& active) {
  const MaskPlaces places(layout);
  require_memory("active->masks", active.masks, active.masks_bytes, places.all_bytes());
  std::vector<RowFlags> flags;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const dit_block& place = places.blocks()[static_cast<std::size_t>(rank)];
    const std::int64_t rows = layout.shape().batch * layout.sequence_rows(rank);
    flags.emplace_back(static_cast<std::size_t>(rows));
    for (const std::uint32_t row : mask_to_rows({active.masks + place.offset, place.bytes}, rows)) {
      flags.back()[row] = 1;
    }
  }
  return flags;
}

}  // namespace

Transfer::Transfer(ExchangeContext& context, const UlyssesLayout& layout, const dit_transfer_options& options)
    : context_(context),
      layout_(layout),
      kind_(options.kind),
      group_(options.group),
      groups_(options.groups),
      element_bytes_(options.element_bytes),
      label_(options.label == nullptr ? "" : options.label) {
  require_ranks(layout, context.size());
  require_between("options->kind", kind_, DIT_SCATTER_QUERY, DIT_GATHER_OUTPUT);
  const int rank = context.rank();
  const AttentionShape& shape = layout.shape();
  const bool output = kind_ == DIT_GATHER_OUTPUT;
  const bool queries = output || kind_ == DIT_SCATTER_QUERY;
  const Range heads = queries ? layout.heads(rank, group_, groups_) : layout.kv_heads(rank, group_, groups_);
  const std::int64_t rows = queries ? layout.query_tokens(rank).size() : layout.tokens();
  const std::int64_t head_layout = shape.batch * rows * heads.size() * shape.head_dim;
  const std::int64_t sequence_layout =
      shape.batch * layout.sequence_rows(rank) * (queries ? shape.heads : shape.kv_heads) * shape.head_dim;
  ExchangeLayout exchange = output ? layout.gather_heads(rank, group_, groups_)
                                   : layout.scatter_heads(tensor_of(kind_), rank, group_, groups_);
  source_ = make_side(std::move(exchange.send), output ? head_layout : sequence_layout);
  target_ = make_side(std::move(exchange.recv), output ? sequence_layout : head_layout);
}

Transfer::Side Transfer::make_side(std::vector<PeerBlock> peers, std::int64_t tensor_elements) const {
  Side side;
  side.blocks = blocks_in_place(peers, element_bytes_);
  side.in_place = !side.blocks.empty();
  if (!side.in_place) {
    side.blocks = packed_blocks(peers, element_bytes_);
    side.buffer.resize(packed_bytes(peers, element_bytes_));
  }
  side.peers = std::move(peers);
  side.bytes = static_cast<std::size_t>(tensor_elements) * element_bytes_;
  return side;
}

const dit_row_selection* Transfer::select(const dit_active_rows& active) {
  if (kind_ == DIT_GATHER_OUTPUT) {
    throw std::invalid_argument("active is for scatters: expected null, the whole output travels");
  }
  const std::vector<RowFlags> flags = to_flags(layout_, active);
  if (!selection_) {
    selection_.emplace(layout_, tensor_of(kind_), context_.rank(), group_, groups_, element_bytes_);
  }
  selection_->select(flags, active.boundary);
  return selection_->get();
}

void Transfer::start(const void* source, void* target, const dit_active_rows* active) {
  if (under_way_) {
    throw std::invalid_argument("transfer is under way: expected a wait before the next start");
  }
  const dit_row_selection* selection = active == nullptr ? nullptr : select(*active);
  const std::span from(static_cast<const std::byte*>(source), source_.bytes);
  const std::span to(static_cast<std::byte*>(target), target_.bytes);
  if (!source_.in_place) {
    pack(source_.peers, element_bytes_, from, source_.buffer);
  }
  if (selection != nullptr && !target_.in_place) {
    pack(target_.peers, element_bytes_, to, target_.buffer);  // rows that stay go through the buffer, too
  }
  dit_exchange_call call{};
  call.send = source_.in_place ? source : source_.buffer.data();
  call.recv = target_.in_place ? target : target_.buffer.data();
  call.send_blocks = source_.blocks.data();
  call.recv_blocks = target_.blocks.data();
  call.selection = selection;
  call.label = label_.empty() ? nullptr : label_.c_str();
  request_ = context_.start(call);
  unpack_to_ = target_.in_place ? nullptr : to.data();
  under_way_ = true;
}

void Transfer::finish() {
  if (unpack_to_ != nullptr) {
    unpack(target_.peers, element_bytes_, target_.buffer, {unpack_to_, target_.bytes});
  }
}

bool Transfer::test() {
  if (!under_way_) {
    return true;
  }
  under_way_ = false;  // over, even when it fails
  if (!request_.test()) {
    under_way_ = true;
    return false;
  }
  finish();
  return true;
}

void Transfer::wait() {
  if (!under_way_) {
    return;
  }
  under_way_ = false;  // over, even when it fails
  request_.wait();
  finish();
}

}  // namespace dit::c_interface
