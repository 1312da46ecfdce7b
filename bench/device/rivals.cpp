#include "rivals.hpp"

#include <algorithm>
#include <utility>

namespace tapa::bench {

namespace {

/// Whether a way is asked for; `always`: also where none is named.
bool wanted(const std::vector<std::string>& list, const std::string& name, bool always = true) {
  return (list.empty() && always) || std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

Rivals::Rivals(Ranks& ranks, const Settings& settings)
    : ranks_(ranks),
      row_(settings.row),
      most_(*std::max_element(settings.sizes.begin(), settings.sizes.end())),
      send_(most_),
      symmetric_(most_),
      direct_(most_),
      staged_(most_),
      comm_(ranks, settings.options),
      peers_(ranks, staged_.get()) {
  tapa_call(TAPA_Device_register(comm_.get(), symmetric_.get(), most_, TAPA_DEVICE_SYMMETRIC, &windows_[0]));
  tapa_call(TAPA_Device_register(comm_.get(), direct_.get(), most_, 0, &windows_[1]));
  const auto exchange = [this](char* receive) {
    return [this, receive](std::size_t block, cudaStream_t stream) {
      tapa_call(TAPA_Device_alltoall(send_.get(), receive, block, comm_.get(), stream));
    };
  };
  add(settings, {"tapa", exchange(symmetric_.get()), send_.get(), symmetric_.get(), true, {}, {}});
  add(settings, {"tapa-kernel", exchange(direct_.get()), send_.get(), direct_.get(), true, {}, {}});
  add(settings, {"tapa-staged", exchange(staged_.get()), send_.get(), staged_.get(), true, {}, {}});
  add_strided(settings);
  for (const auto policy : {Nccl::Policy::standard, Nccl::Policy::zero_cta}) {
    const char* const name = policy == Nccl::Policy::standard ? "nccl" : "nccl-zero-cta";
    if (!wanted(settings.ways, name)) continue;
    auto nccl = Nccl::make(ranks, settings.nccl, policy, most_);
    if (nccl == nullptr) continue;
    Nccl* const made = nccls_.emplace_back(std::move(nccl)).get();
    add(settings, {name,
                   [made](std::size_t block, cudaStream_t stream) { made->alltoall(block, stream); },
                   made->send(),
                   made->receive(),
                   true,
                   {},
                   {}});
  }
  add(settings, {"copy",
                 [this](std::size_t block, cudaStream_t stream) { copy(block, stream); },
                 send_.get(),
                 staged_.get(),
                 false,
                 {},
                 {}});
}

void Rivals::add(const Settings& settings, Way way) {
  if (wanted(settings.ways, way.name)) ways_.push_back(std::move(way));
}

TAPA_Device_block Rivals::beside(std::size_t block, int peer) const {
  const std::size_t row = std::min(row_, block);
  return {static_cast<std::size_t>(peer) * row,          row, block / row,
          row * static_cast<std::size_t>(ranks_.size()), 1,   0};
}

void Rivals::add_strided(const Settings& settings) {
  const auto together = [](std::size_t block, int peer) { return Way::behind(block, peer); };
  const auto apart = [this](std::size_t block, int peer) { return beside(block, peer); };
  using Layout = std::function<TAPA_Device_block(std::size_t, int)>;
  const auto exchange = [this](char* receive, const Layout& source, const Layout& sink) {
    return [this, receive, source, sink](std::size_t block, cudaStream_t stream) {
      TAPA_Device_block send[TAPA_DEVICE_MAX_RANKS];
      TAPA_Device_block recv[TAPA_DEVICE_MAX_RANKS];
      for (int peer = 0; peer < ranks_.size(); ++peer) {
        send[peer] = source(block, peer);
        recv[peer] = sink(block, peer);
      }
      tapa_call(TAPA_Device_alltoall_strided(send_.get(), send, receive, recv, comm_.get(), stream));
    };
  };
  const auto add_way = [&](const char* name, char* receive, const Layout& source, const Layout& sink) {
    if (!wanted(settings.ways, name, false)) return;
    add(settings, {name, exchange(receive, source, sink), send_.get(), receive, true, source, sink});
  };
  add_way("scatter", direct_.get(), apart, together);
  add_way("gather", direct_.get(), together, apart);
  add_way("both-strided", direct_.get(), apart, apart);
  add_way("scatter-staged", staged_.get(), apart, together);
  if (!wanted(settings.ways, "copy-gather", false)) return;
  add(settings, {"copy-gather", [this](std::size_t block, cudaStream_t stream) { copy_rows(block, stream); },
                 send_.get(), staged_.get(), false, together, apart});
}

void Rivals::copy_rows(std::size_t block, cudaStream_t stream) {
  const TAPA_Device_block there = beside(block, ranks_.rank());
  for (int step = 1; step < ranks_.size(); ++step) {
    const int peer = (ranks_.rank() + step) % ranks_.size();
    cuda(cudaMemcpy2DAsync(peers_.of(peer) + there.offset, there.row_stride,
                           send_.get() + static_cast<std::size_t>(peer) * block, there.row_bytes,
                           there.row_bytes, there.rows, cudaMemcpyDeviceToDevice, stream),
         "cudaMemcpy2DAsync");
  }
}

void Rivals::copy(std::size_t block, cudaStream_t stream) {
  for (int step = 1; step < ranks_.size(); ++step) {
    const int peer = (ranks_.rank() + step) % ranks_.size();
    cuda(cudaMemcpyAsync(peers_.of(peer) + static_cast<std::size_t>(ranks_.rank()) * block,
                         send_.get() + static_cast<std::size_t>(peer) * block, block,
                         cudaMemcpyDeviceToDevice, stream),
         "cudaMemcpyAsync");
  }
}

}  // namespace tapa::bench
