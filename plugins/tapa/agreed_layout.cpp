#include "tapa/agreed_layout.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "exchange/plugin_guard.hpp"

namespace dit {
namespace {

std::string name_of(const char* blocks, std::size_t peer) {
  return "call." + std::string(blocks) + "[" + std::to_string(peer) + "]";
}

std::vector<int> sizes_of(std::span<const dit_block> blocks, const char* name) {
  std::vector<int> bytes;
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    if (blocks[peer].bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw PluginFailure(DIT_ERROR_UNSUPPORTED,
                          name_of(name, peer) + " has " + std::to_string(blocks[peer].bytes) +
                              " bytes, expected at most " + std::to_string(std::numeric_limits<int>::max()) +
                              " with a layout_id");
    bytes.push_back(static_cast<int>(blocks[peer].bytes));
  }
  return bytes;
}

void check_sizes(const std::vector<int>& known, const dit_block* blocks, const char* name, std::uint64_t id) {
  for (std::size_t peer = 0; peer < known.size(); ++peer)
    if (blocks[peer].bytes != static_cast<std::size_t>(known[peer]))
      throw PluginFailure(DIT_ERROR_ARGUMENT, name_of(name, peer) + " has " +
                                                  std::to_string(blocks[peer].bytes) + " bytes, expected " +
                                                  std::to_string(known[peer]) + " as before with layout_id " +
                                                  std::to_string(id));
}

}  // namespace

AgreedLayout::AgreedLayout(std::uint64_t id, const dit_exchange_call& call, std::size_t size)
    : id_(id),
      send_bytes_(sizes_of({call.send_blocks, size}, "send_blocks")),
      recv_bytes_(sizes_of({call.recv_blocks, size}, "recv_blocks")) {}

AgreedLayout::~AgreedLayout() {
  if (selection_ != TAPA_SELECTION_NULL) TAPA_Selection_free(&selection_);
}

void AgreedLayout::check(const dit_exchange_call& call) const {
  check_sizes(send_bytes_, call.send_blocks, "send_blocks", id_);
  check_sizes(recv_bytes_, call.recv_blocks, "recv_blocks", id_);
}

void AgreedLayout::agree(MPI_Comm comm, const std::string& everywhere) {
  if (agreed_) return;
  const std::vector<int> none(send_bytes_.size(), 0);
  if (TAPA_Selection_create(send_bytes_.data(), recv_bytes_.data(), none.data(), nullptr, 0,
                            everywhere.c_str(), comm, &selection_) != MPI_SUCCESS)
    throw PluginFailure(DIT_ERROR_COMMUNICATION,
                        "layout_id " + std::to_string(id_) + ": " + TAPA_Last_error());
  agreed_ = true;
}

std::shared_ptr<AgreedLayout> AgreedLayouts::of(const dit_exchange_call& call, std::size_t size) {
  const auto found = std::find_if(layouts_.begin(), layouts_.end(),
                                  [&](const auto& layout) { return layout->id() == call.layout_id; });
  if (found != layouts_.end()) {
    (*found)->check(call);
    layouts_.splice(layouts_.begin(), layouts_, found);
    return layouts_.front();
  }
  layouts_.push_front(std::make_shared<AgreedLayout>(call.layout_id, call, size));
  if (layouts_.size() > kMost) layouts_.pop_back();
  return layouts_.front();
}

}  // namespace dit
