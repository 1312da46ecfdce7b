// The operators dit_native::*, which are dit::* for compiled graphs, whose sizes are symbols. sized.py
// defines them, and knows the name of the exchange of a kind and of sizes: it is asked where they are new, as
// each way into Python costs tens of microseconds.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "exchange.hpp"
#include "operators.hpp"
#include "streams.hpp"

namespace dit::operators {
namespace {

std::string ask_python(const char* function, std::vector<c10::IValue> arguments) {
  const auto found = c10::Dispatcher::singleton().findSchemaOrThrow(function, "");
  found.callBoxed(&arguments);
  return arguments.at(0).toStringRef();
}

/// Names that Python has told.
class KnownNames {
 public:
  std::string of(const at::Tensor& x, at::IntArrayRef kind, at::IntArrayRef sizes) {
    const bool captured = x.is_cuda() && capture_of(current_stream(x.device())) != 0;
    if (!captured) {
      const std::lock_guard lock(mutex_);
      for (Entry& entry : entries_) {
        if (!entry.is_of(x, kind, sizes) || !exchanges().has(entry.name)) continue;
        entry.used = true;
        return entry.name;
      }
    }
    for (const Entry& entry : used_since()) (void)ask(entry.like, entry.kind, entry.sizes);
    Entry found{at::empty({0}, x.options()), kind.vec(), sizes.vec(), ask(x, kind, sizes)};
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) {
      return entry.is_of(x, kind, sizes) || !exchanges().has(entry.name);
    });
    return entries_.emplace_back(std::move(found)).name;
  }

 private:
  struct Entry {
    at::Tensor like;
    std::vector<std::int64_t> kind, sizes;
    std::string name;
    bool used = false;
    [[nodiscard]] bool is_of(const at::Tensor& x, at::IntArrayRef of, at::IntArrayRef now) const {
      return now == sizes && of == kind && x.scalar_type() == like.scalar_type() &&
             x.device() == like.device();
    }
  };

  static std::string ask(const at::Tensor& x, at::IntArrayRef kind, at::IntArrayRef sizes) {
    return ask_python("dit_sized::name_of", {x, kind, sizes});
  }

  /// Since Python was asked last. It frees what it has not heard of for longest, so that it has to hear of
  /// these.
  std::vector<Entry> used_since() {
    const std::lock_guard lock(mutex_);
    std::vector<Entry> used;
    for (Entry& entry : entries_)
      if (std::exchange(entry.used, false) && exchanges().has(entry.name)) used.push_back(entry);
    return used;
  }

  std::mutex mutex_;
  std::vector<Entry> entries_;
};

KnownNames& known_names() {
  static auto* const names = new KnownNames;  // never destroyed: its tensors would come after torch
  return *names;
}

/// Calls an operator by name; what fails in it is said as Python says it.
template <typename Operator>
auto call(const Operator& function, const at::Tensor& x, at::IntArrayRef kind, at::IntArrayRef sizes) {
  const std::string name = known_names().of(x, kind, sizes);
  try {
    return function(name);
  } catch (const c10::Error& error) {
    if (typeid(error) != typeid(c10::Error)) throw;
    const std::string words = error.what_without_backtrace();
    TORCH_CHECK(false, ask_python("dit_sized::explained", {words, name}));
  }
}

at::Tensor sized_start(const at::Tensor& x, at::IntArrayRef kind, at::IntArrayRef sizes, std::int64_t what,
                       std::int64_t layer, const MaybeTensor& weight, const MaybeTensor& text_weight,
                       const MaybeTensor& cosine, const MaybeTensor& sine, double epsilon, std::int64_t norm,
                       std::int64_t rope, bool round_norm, const MaybeTensor& after) {
  const auto named = [&](const std::string& name) {
    return start(x, name, what, layer, weight, text_weight, cosine, sine, epsilon, norm, rope, round_norm,
                 after);
  };
  return call(named, x, kind, sizes);
}

at::Tensor sized_finish(const at::Tensor& token, at::IntArrayRef kind, at::IntArrayRef sizes,
                        std::int64_t what, std::int64_t layer, const MaybeTensor& after) {
  const auto named = [&](const std::string& name) { return finish(token, name, what, layer, after); };
  return call(named, token, kind, sizes);
}

at::Tensor sized_gather(const at::Tensor& o, at::IntArrayRef kind, at::IntArrayRef sizes,
                        std::int64_t layer) {
  return call([&](const std::string& name) { return gather(o, name, layer); }, o, kind, sizes);
}

Three sized_scatter_qkv(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef kind,
                        at::IntArrayRef sizes, std::int64_t layer, const MaybeTensor& q_weight,
                        const MaybeTensor& q_text_weight, const MaybeTensor& k_weight,
                        const MaybeTensor& k_text_weight, const MaybeTensor& cosine, const MaybeTensor& sine,
                        double epsilon, std::int64_t norm, std::int64_t rope, bool round_norm) {
  const auto named = [&](const std::string& name) {
    return scatter_qkv(q, k, v, name, layer, q_weight, q_text_weight, k_weight, k_text_weight, cosine, sine,
                       epsilon, norm, rope, round_norm);
  };
  return call(named, q, kind, sizes);
}

void implement(torch::Library& library) {
  library.impl("start", TORCH_FN(sized_start));
  library.impl("finish", TORCH_FN(sized_finish));
  library.impl("gather", TORCH_FN(sized_gather));
  library.impl("scatter_qkv", TORCH_FN(sized_scatter_qkv));
}

}  // namespace
}  // namespace dit::operators

TORCH_LIBRARY_IMPL(dit_native, CPU, library) {
  dit::operators::implement(library);
}
TORCH_LIBRARY_IMPL(dit_native, CUDA, library) {
  dit::operators::implement(library);
}
