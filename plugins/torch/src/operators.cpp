// The operators dit::*: their schemas, what they do to tensors, and which shapes they return.
#include "operators.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "all_gather.hpp"
#include "all_to_all.hpp"
#include "digest.hpp"
#include "exchange.hpp"

namespace dit::operators {
namespace {

/// Runs an operator; what is wrong becomes torch's error, with the operator's name before it.
template <typename Body>
auto checked(const char* name, const Body& body) {
  try {
    return body();
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "dit::", name, ": ", error.what());
  }
}

/// It says of which type and where x is, so that finish does not need x: a compiler may give it another copy.
at::Tensor token_like(const at::Tensor& x) {
  return at::empty({0}, x.options());
}

}  // namespace

at::Tensor start(const at::Tensor& x, const std::string& exchange, std::int64_t what, std::int64_t layer,
                 const MaybeTensor& weight, const MaybeTensor& text_weight, const MaybeTensor& cosine,
                 const MaybeTensor& sine, double epsilon, std::int64_t norm, std::int64_t rope,
                 bool round_norm, const MaybeTensor& /*after*/) {
  return checked("start", [&] {
    exchanges().get(exchange)->start(what, x, layer,
                                     {weight, text_weight, cosine, sine, epsilon, norm, rope, round_norm});
    return token_like(x);
  });
}

at::Tensor finish(const at::Tensor& /*token*/, const std::string& exchange, std::int64_t what,
                  std::int64_t /*layer*/, const MaybeTensor& /*after*/) {
  return checked("finish", [&] { return exchanges().get(exchange)->finish(what); });
}

at::Tensor gather(const at::Tensor& o, const std::string& exchange, std::int64_t layer) {
  return checked("gather",
                 [&] { return exchanges().get(exchange)->exchange(DIT_GATHER_OUTPUT, o, layer, {}); });
}

Three scatter_qkv(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::string& exchange,
                  std::int64_t layer, const MaybeTensor& q_weight, const MaybeTensor& q_text_weight,
                  const MaybeTensor& k_weight, const MaybeTensor& k_text_weight, const MaybeTensor& cosine,
                  const MaybeTensor& sine, double epsilon, std::int64_t norm, std::int64_t rope,
                  bool round_norm) {
  return checked("scatter_qkv", [&]() -> Three {
    const auto targets = exchanges().get(exchange)->scatter(
        {q, k, v}, layer,
        {Preparation{q_weight, q_text_weight, cosine, sine, epsilon, norm, rope, round_norm},
         Preparation{k_weight, k_text_weight, cosine, sine, epsilon, norm, rope, round_norm}, Preparation{}});
    return {targets[0], targets[1], targets[2]};
  });
}

namespace {

at::Tensor exchange(const at::Tensor& x, const std::string& exchange, std::int64_t what, std::int64_t layer,
                    const MaybeTensor& weight, const MaybeTensor& text_weight, const MaybeTensor& cosine,
                    const MaybeTensor& sine, double epsilon, std::int64_t norm, std::int64_t rope,
                    bool round_norm) {
  return checked("exchange", [&] {
    return exchanges().get(exchange)->exchange(
        what, x, layer, {weight, text_weight, cosine, sine, epsilon, norm, rope, round_norm});
  });
}

void all_to_all(const at::Tensor& output, const at::Tensor& input, at::IntArrayRef output_splits,
                at::IntArrayRef input_splits, const std::string& group) {
  checked("all_to_all",
          [&] { all_to_all_rows(*groups().get(group), output, input, output_splits, input_splits); });
}

at::Tensor all_gather_parts(const at::Tensor& x, std::int64_t dim, std::int64_t total,
                            const std::string& group) {
  return checked("all_gather", [&] { return all_gather(*groups().get(group), x, dim, total); });
}

at::Tensor digests_of(at::TensorList tensors) {
  return checked("digests", [&] { return digests(tensors); });
}

// Shapes alone, for compilers: what x is like is seen when the operator runs. Layers stay symbols, so that
// one compiled block serves all of them.

at::Tensor target_like(const at::Tensor& x, const std::string& exchange, std::int64_t what) {
  return at::empty(exchanges().get(exchange)->transfers().target(Exchange::kind_of(what)), x.options());
}

at::Tensor start_meta(const at::Tensor& x, const std::string& exchange, std::int64_t what, c10::SymInt,
                      const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, double,
                      std::int64_t, std::int64_t, bool, const MaybeTensor&) {
  return checked("start", [&] {
    (void)exchanges().get(exchange);
    (void)Exchange::kind_of(what);
    return token_like(x);
  });
}

at::Tensor finish_meta(const at::Tensor& token, const std::string& exchange, std::int64_t what, c10::SymInt,
                       const MaybeTensor&) {
  return checked("finish", [&] { return target_like(token, exchange, what); });
}

at::Tensor exchange_meta(const at::Tensor& x, const std::string& exchange, std::int64_t what, c10::SymInt,
                         const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                         double, std::int64_t, std::int64_t, bool) {
  return checked("exchange", [&] { return target_like(x, exchange, what); });
}

at::Tensor gather_meta(const at::Tensor& o, const std::string& exchange, c10::SymInt) {
  return checked("gather", [&] { return target_like(o, exchange, DIT_GATHER_OUTPUT); });
}

Three scatter_qkv_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const std::string& exchange, c10::SymInt, const MaybeTensor&, const MaybeTensor&,
                       const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, double,
                       std::int64_t, std::int64_t, bool) {
  return checked("scatter_qkv", [&]() -> Three {
    return {target_like(q, exchange, DIT_SCATTER_QUERY), target_like(k, exchange, DIT_SCATTER_KEY),
            target_like(v, exchange, DIT_SCATTER_VALUE)};
  });
}

void all_to_all_meta(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef,
                     const std::string&) {}

at::Tensor all_gather_meta(const at::Tensor& x, std::int64_t dim, c10::SymInt total, const std::string&) {
  return checked("all_gather", [&] {
    require_dimension(x, dim);
    std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
    sizes[static_cast<std::size_t>(dim)] = std::move(total);
    return at::empty_symint(sizes, x.options());
  });
}

/// The last operator of a pass, which a backward pass comes to first.
class LastOperator : public torch::autograd::Function<LastOperator> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x, std::int64_t dim,
                            const c10::SymInt& total, const std::string& group) {
    static const auto below =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("dit::all_gather", "")
            .typed<at::Tensor(const at::Tensor&, std::int64_t, c10::SymInt, const std::string&)>();
    const at::AutoDispatchBelowADInplaceOrView guard;
    return below.call(x, dim, total, group);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               const torch::autograd::tensor_list&) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "a backward pass came to an enabled transformer, whose exchange has none: expected torch.no_grad() "
        "or "
        "torch.inference_mode() around it; to train, dit_torch.disable(transformer) before");
  }
};

at::Tensor all_gather_with_gradients(const at::Tensor& x, std::int64_t dim, c10::SymInt total,
                                     const std::string& group) {
  return LastOperator::apply(x, dim, total, group);
}

void implement(torch::Library& library) {
  library.impl("start", TORCH_FN(start));
  library.impl("finish", TORCH_FN(finish));
  library.impl("exchange", TORCH_FN(exchange));
  library.impl("gather", TORCH_FN(gather));
  library.impl("scatter_qkv", TORCH_FN(scatter_qkv));
  library.impl("all_to_all", TORCH_FN(all_to_all));
  library.impl("all_gather", TORCH_FN(all_gather_parts));
  library.impl("digests", TORCH_FN(digests_of));
}

}  // namespace
}  // namespace dit::operators

TORCH_LIBRARY(dit, library) {
  library.def(
      "start(Tensor x, str exchange, int what, SymInt layer, Tensor? weight=None, Tensor? text_weight=None, "
      "Tensor? cosine=None, Tensor? sine=None, float epsilon=0.0, int norm=0, int rope=0, "
      "bool round_norm=False, Tensor? after=None) -> Tensor");
  library.def("finish(Tensor token, str exchange, int what, SymInt layer, Tensor? after=None) -> Tensor");
  library.def(
      "exchange(Tensor x, str exchange, int what, SymInt layer, Tensor? weight=None, Tensor? "
      "text_weight=None, "
      "Tensor? cosine=None, Tensor? sine=None, float epsilon=0.0, int norm=0, int rope=0, "
      "bool round_norm=False) -> Tensor");
  library.def("gather(Tensor o, str exchange, SymInt layer) -> Tensor");
  library.def(
      "scatter_qkv(Tensor q, Tensor k, Tensor v, str exchange, SymInt layer, Tensor? q_weight=None, "
      "Tensor? q_text_weight=None, Tensor? k_weight=None, Tensor? k_text_weight=None, Tensor? cosine=None, "
      "Tensor? sine=None, float epsilon=0.0, int norm=0, int rope=0, bool round_norm=False) "
      "-> (Tensor, Tensor, Tensor)");
  library.def(
      "all_to_all(Tensor(a!) output, Tensor input, int[] output_splits, int[] input_splits, str group) -> "
      "()");
  library.def("all_gather(Tensor x, int dim, SymInt total, str group) -> Tensor");
  library.def("digests(Tensor[] tensors) -> Tensor");
}

TORCH_LIBRARY_IMPL(dit, CPU, library) {
  dit::operators::implement(library);
}
TORCH_LIBRARY_IMPL(dit, CUDA, library) {
  dit::operators::implement(library);
}
// There is no backward pass: without this a gradient would go past the exchange, and be wrong.
TORCH_LIBRARY_IMPL(dit, Autograd, library) {
  for (const char* name : {"start", "finish", "exchange", "gather", "scatter_qkv"})
    library.impl(name, torch::autograd::autogradNotImplementedFallback());
  library.impl("all_gather", TORCH_FN(dit::operators::all_gather_with_gradients));
}
TORCH_LIBRARY_IMPL(dit, Meta, library) {
  using namespace dit::operators;  // NOLINT(google-build-using-namespace)
  library.impl("start", TORCH_FN(start_meta));
  library.impl("finish", TORCH_FN(finish_meta));
  library.impl("exchange", TORCH_FN(exchange_meta));
  library.impl("gather", TORCH_FN(gather_meta));
  library.impl("scatter_qkv", TORCH_FN(scatter_qkv_meta));
  library.impl("all_to_all", TORCH_FN(all_to_all_meta));
  library.impl("all_gather", TORCH_FN(all_gather_meta));
}
