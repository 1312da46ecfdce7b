#include "c_interface/wire.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "c_interface/agreement.hpp"
#include "c_interface/error.hpp"
#include "c_interface/tensor.hpp"
#include "predict/coding_gain.hpp"
#include "predict/machine_rates.hpp"
#include "transfer/block_coder.hpp"
#include "wire/wire_policy_file.hpp"
#include "wire/wire_words.hpp"

using namespace dit::c_interface;

namespace {

dit::WireElement to_element(int type) {
  switch (type) {
    case DIT_ELEMENT_FP32:
      return dit::WireElement::fp32;
    case DIT_ELEMENT_BF16:
      return dit::WireElement::bf16;
    case DIT_ELEMENT_FP16:
      return dit::WireElement::fp16;
    default:
      throw std::invalid_argument("options->element_type = " + std::to_string(type) +
                                  ": expected 0 (DIT_ELEMENT_FP32), 1 (DIT_ELEMENT_BF16) or 2 "
                                  "(DIT_ELEMENT_FP16), which policies code");
  }
}

void require_at_least_one(const char* name, int value, int most) {
  if (value < 1 || value > most) {
    throw std::invalid_argument(std::string("options->") + name + " = " + std::to_string(value) +
                                ": expected 1 to " + std::to_string(most));
  }
}

std::vector<std::string> split_names(const char* list) {
  std::vector<std::string> names;
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (comma != 0) {
      names.emplace_back(rest.substr(0, comma));
    }
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return names;
}

dit::WirePolicy to_policy(const dit_wire_options& options) {
  constexpr int kMost = 1'000'000;
  (void)required(options.policy, "options->policy");
  require_at_least_one("layers", options.layers, kMost);
  require_at_least_one("steps", options.steps,
                       kMost / options.layers);  // a policy is looked up for each of both
  require_at_least_one("branches", options.branches, dit::kBranches);
  require_at_least_one("groups", options.groups, kMost);
  (void)to_element(options.element_type);
  dit::WirePolicy policy;
  try {
    policy = dit::wire_policy_from(options.policy, options.steps);
  } catch (const std::runtime_error& error) {  // of a file
    throw std::invalid_argument(std::string("options->policy: ") + error.what());
  }
  for (const std::string& name : split_names(options.off)) {
    policy.off.push_back(name);
  }
  return policy;
}

constexpr int kInputs = 3;  // query, key, value: as in AttentionTensor

std::size_t slot(int branches, const dit::TransferPlace& place) {
  return branches > 1 ? static_cast<std::size_t>(place.branch) : 0;
}

}  // namespace

dit_wire::dit_wire(dit_session& in, const dit::UlyssesLayout& layout, const dit::WirePolicy& policy,
                   const dit_wire_options& options)
    : session(in),
      number(++in.wires_made),
      branches(options.branches),
      run(policy, options.layers, options.steps, in.context, in.context, layout, options.groups,
          to_element(options.element_type)),
      visits_(static_cast<std::size_t>(options.branches),
              Visit{{}, std::vector<std::uint8_t>(static_cast<std::size_t>(options.groups) * kInputs)}),
      seen_(static_cast<std::size_t>(options.branches) * static_cast<std::size_t>(options.layers)) {}

bool dit_wire::chooses(const dit::TransferPlace& place) const {
  return run.plan().v_major(place.layer, place.step, place.branch).has_value();
}

dit_wire::Visit& dit_wire::visit_of(const dit::TransferPlace& place) {
  return visits_[slot(branches, place)];
}

std::uint8_t& dit_wire::taken_by(Visit& visit, dit::AttentionTensor tensor, int group) {
  return visit.taken[static_cast<std::size_t>(group * kInputs + static_cast<int>(tensor))];
}

void dit_wire::choose(Visit& visit, const dit::TransferPlace& place, const dit::SourceTensor& value,
                      int memory_kind, void* stream) {
  const auto unit = static_cast<int>(slot(branches, place));
  const int rank = session.context.rank();
  if (memory_kind == DIT_MEMORY_HOST) {
    if (!rows_) {
      rows_.emplace(run.plan(), run.layout(), rank, branches, run.element());
    }
    rows_->choose(unit, place, value);
  } else {
    if (!device_rows_) {
      device_rows_.emplace(run.plan(), run.layout(), rank, branches, run.element(),
                           dit::TransferMemory::of(memory_kind), dit::code_launcher(memory_kind));
    }
    device_rows_->choose(unit, place, value, stream);
  }
  const std::size_t layer = slot(branches, place) * static_cast<std::size_t>(run.plan().shape().layers) +
                            static_cast<std::size_t>(place.layer);
  visit.first = std::exchange(seen_[layer], std::uint8_t{1}) == 0;
  visit.place = place;
  std::ranges::fill(visit.taken, std::uint8_t{0});
}

void dit_wire::choose_rows(const dit::TransferPlace& place, const dit::SourceTensor& value) {
  (void)run.resolve(dit::AttentionTensor::value, place);  // checks it
  if (on_device) {
    throw dit::ExchangeError(
        DIT_ERROR_UNSUPPORTED,
        "rows of tensors on a device: expected V's transfer to start before Q's and K's, which "
        "chooses them");
  }
  const std::scoped_lock lock(mutex_);
  Visit& visit = visit_of(place);
  const bool over = std::ranges::find(visit.taken, std::uint8_t{0}) == visit.taken.end();
  if (run.plan().uses_v_major() && (visit.place != place || over)) {
    choose(visit, place, value, DIT_MEMORY_HOST, nullptr);
  }
}

ActiveSet dit_wire::take_active_rows(dit::AttentionTensor tensor, int group, const dit::TransferPlace& place,
                                     const dit::SourceTensor& source, int memory_kind, void* stream) {
  const std::scoped_lock lock(mutex_);
  Visit& visit = visit_of(place);
  std::uint8_t& taken = taken_by(visit, tensor, group);
  const bool is_new = visit.place != place || taken != 0;
  if (is_new && tensor == dit::AttentionTensor::value && run.plan().uses_v_major()) {
    choose(visit, place, source, memory_kind, stream);
  } else if (is_new && chooses(place)) {
    throw std::invalid_argument(
        "the rows of layer " + std::to_string(place.layer) + ", step " + std::to_string(place.step) +
        ", branch " + std::to_string(place.branch) +
        " are not chosen: expected the start of V's transfer, or dit_wire_choose_rows, before");
  }
  taken = visit.place == place ? 1 : 0;
  if (!chooses(place)) {
    return {};
  }
  if (visit.first) {  // Q or K may have come before: their rows are not chosen either
    return {{}, {}, true};
  }
  const auto unit = static_cast<int>(slot(branches, place));
  if (memory_kind != DIT_MEMORY_HOST) {
    return {{}, device_rows_->active(unit)};
  }
  const std::span<const std::uint32_t> rows = rows_->active(unit);
  return {{rows.begin(), rows.end()}, {}};
}

extern "C" {

const char* dit_wire_presets(void) {
  static const std::string names = [] {
    std::string list;
    for (const std::string& name : dit::wire_preset_names()) {
      list += name + ' ';
    }
    return list + "paper";
  }();
  return names.c_str();
}

dit_status dit_wire_create(dit_session* session, const dit_layout* layout, const dit_wire_options* options,
                           dit_wire** wire) {
  return guarded(__func__, [&] {
    dit_session& in = required(session, "session");
    dit_wire_options how{};
    dit::WirePolicy policy;
    agree(in.context, [&] {
      const dit::UlyssesLayout& of = required(layout, "layout").layout;
      how = read_struct(options, "options", "dit_wire_options");
      (void)required(wire, "wire");
      require_ranks(of, in.context.size());
      policy = to_policy(how);
      (void)dit::WirePlan(policy, {how.layers, how.steps, in.context.levels(), in.context.slow_level()});
      std::vector<NamedNumber> numbers = shape_numbers(of);
      numbers.insert(numbers.end(), {{"options->layers", how.layers},
                                     {"options->steps", how.steps},
                                     {"options->branches", how.branches},
                                     {"options->groups", how.groups},
                                     {"options->element_type", how.element_type},
                                     {"a number for the policy", number_of(dit::to_json(policy))}});
      return numbers;
    });
    *wire = new dit_wire(in, layout->layout, policy, how);
    ++in.wires;
  });
}

dit_status dit_wire_free(dit_wire** wire) {
  return guarded(__func__, [&] {
    dit_wire*& handle = required(wire, "wire");
    if (handle == nullptr) {
      return;
    }
    require_none("wire", handle->transfers(), "transfers");
    const std::unique_ptr<dit_wire> owner(handle);
    handle = nullptr;
    --owner->session.wires;
  });
}

dit_status dit_wire_memory_bytes(const dit_wire* wire, uint64_t* bytes) {
  return guarded(__func__, [&] {
    const dit_wire& of = required(wire, "wire");
    std::uint64_t& result = required(bytes, "bytes");
    const dit::WireRun& run = of.run;
    const std::uint64_t chosen_rows = dit::ActiveRows::bytes(
        run.plan(), run.layout(), of.session.context.rank(), of.branches, dit::bytes_of(run.element()));
    result = run.memory(of.branches).total() + run.late_bytes(of.branches) + chosen_rows;
  });
}

dit_status dit_wire_text(const dit_wire* wire, char* text, size_t bytes, size_t* length) {
  return guarded(__func__, [&] {
    write_text(dit::to_json(required(wire, "wire").run.plan().policy()), text, bytes, length);
  });
}

dit_status dit_wire_share(const dit_wire* wire, int level, double* share) {
  return guarded(__func__, [&] {
    const dit::WireRun& run = required(wire, "wire").run;
    double& result = required(share, "share");
    require_level(level, static_cast<int>(run.plan().shape().levels.size()));
    result = bytes_share(modes_of_level(run.plan(), level, run.text_shares()), run.element());
  });
}

dit_status dit_wire_forget(dit_wire* wire, void* stream) {
  return guarded(__func__, [&] { required(wire, "wire").forget(stream); });
}

dit_status dit_wire_first_alike(const dit_wire* wire, int step, int branch, int* first) {
  return guarded(__func__, [&] {
    const dit_wire& of = required(wire, "wire");
    required(first, "first") = of.run.first_alike(step, branch);
  });
}

dit_status dit_wire_replayed(dit_wire* wire, int branch) {
  return guarded(__func__, [&] {
    dit_wire& of = required(wire, "wire");
    (void)of.run.first_alike(0, branch);  // checks it
    of.have_travelled(branch);
  });
}

dit_status dit_wire_pays(const dit_wire* wire, int level, double bytes_per_second, int* pays) {
  return guarded(__func__, [&] {
    const dit::WireRun& run = required(wire, "wire").run;
    int& result = required(pays, "pays");
    require_level(level, static_cast<int>(run.plan().shape().levels.size()));
    if (!(bytes_per_second > 0)) {
      throw std::invalid_argument("bytes_per_second = " + std::to_string(bytes_per_second) +
                                  ": expected more than 0");
    }
    const std::vector<dit::ModeShare> modes = modes_of_level(run.plan(), level, run.text_shares());
    dit::CodingGain gain;
    gain.share = bytes_share(modes, run.element());
    gain.link_seconds = 1 / bytes_per_second;
    gain.codec_seconds = measure_coding(nullptr, modes, run.element(), run.plan().policy().momentum);
    result = gain.pays() ? 1 : 0;
  });
}

dit_status dit_wire_choose_rows(dit_wire* wire, int layer, int step, int branch, const dit_tensor* value) {
  return guarded(__func__, [&] {
    dit_wire& of = required(wire, "wire");
    const dit_tensor& tensor = required(value, "value");
    const dit::TensorShape shape =
        of.run.layout().sequence_shape(dit::AttentionTensor::value, of.session.context.rank());
    of.choose_rows({layer, step, branch}, to_source("value", tensor, shape, dit::bytes_of(of.run.element())));
  });
}

}  // extern "C"
