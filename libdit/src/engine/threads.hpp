/// How many threads a rank computes with. Nothing here happens when the library is loaded: the Engine's
/// constructor and generate() call it.
#pragma once

namespace dit {

class ExchangeContext;

/// DIT_THREADS when it is set (throws std::invalid_argument when it is no number from 1 to 1024), else this
/// rank's cores divided by the ranks of its node that may run on them, at least 1. Collective.
[[nodiscard]] int compute_threads_for(ExchangeContext* context);

/// Makes the calling thread compute with so many threads: ATen's. OpenBLAS, of which ATen does not know, gets
/// one: the model deals out its products itself, and two pools on the same cores wait for each other
/// spinning.
void use_compute_threads(int threads);

}  // namespace dit
