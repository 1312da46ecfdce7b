#include "rivals.hpp"

#include <algorithm>
#include <utility>

namespace tapa::bench {

namespace {

bool wanted(const std::vector<std::string>& list, const std::string& name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

Rivals::Rivals(Ranks& ranks, const Settings& settings)
    : ranks_(ranks),
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
  add(settings, {"tapa", exchange(symmetric_.get()), send_.get(), symmetric_.get()});
  add(settings, {"tapa-kernel", exchange(direct_.get()), send_.get(), direct_.get()});
  add(settings, {"tapa-staged", exchange(staged_.get()), send_.get(), staged_.get()});
  for (const auto policy : {Nccl::Policy::standard, Nccl::Policy::zero_cta}) {
    const char* const name = policy == Nccl::Policy::standard ? "nccl" : "nccl-zero-cta";
    if (!wanted(settings.ways, name)) continue;
    const Launch launch{ranks.rank(), ranks.size(), [&ranks](const void* mine, void* all, std::size_t bytes) {
                          ranks.allgather(mine, all, bytes);
                        }};
    auto nccl = Nccl::make(launch, settings.nccl, policy, most_);
    if (nccl == nullptr) continue;
    Nccl* const made = nccls_.emplace_back(std::move(nccl)).get();
    add(settings, {name, [made](std::size_t block, cudaStream_t stream) { made->alltoall(block, stream); },
                   made->send(), made->receive()});
  }
  add(settings, {"copy", [this](std::size_t block, cudaStream_t stream) { copy(block, stream); }, send_.get(),
                 staged_.get(), false});
}

void Rivals::add(const Settings& settings, Way way) {
  if (wanted(settings.ways, way.name)) ways_.push_back(std::move(way));
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
