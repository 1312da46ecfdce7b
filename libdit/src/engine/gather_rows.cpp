#include "engine/gather_rows.hpp"

#include <array>
#include <memory>
#include <numeric>

namespace dit {

at::Tensor gather_rows(ExchangeContext* context, const at::Tensor& own,
                       const std::vector<std::int64_t>& rows_of_rank) {
  if (context == nullptr) {
    return own;
  }
  const bool receives = context->rank() == 0;
  const std::size_t row_bytes = static_cast<std::size_t>(own.size(1)) * own.element_size();
  const std::int64_t rows = std::accumulate(rows_of_rank.begin(), rows_of_rank.end(), std::int64_t{0});
  const at::Tensor all = at::empty({receives ? rows : 0, own.size(1)}, own.options());
  std::vector<dit_block> send(rows_of_rank.size());
  std::vector<dit_block> recv(rows_of_rank.size());
  send[0].bytes = own.nbytes();
  for (std::size_t peer = 0, offset = 0; receives && peer < recv.size(); ++peer) {
    recv[peer] = {offset, static_cast<std::size_t>(rows_of_rank[peer]) * row_bytes};
    offset += recv[peer].bytes;
  }
  dit_exchange_call call{};
  call.send = own.data_ptr();
  call.recv = all.data_ptr();
  call.send_blocks = send.data();
  call.recv_blocks = recv.data();
  call.label = "image to rank 0";
  context->exchange(call, std::make_shared<std::array<at::Tensor, 2>>(std::array{own, all}));
  return all;
}

}  // namespace dit
