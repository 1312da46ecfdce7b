#include "topology/cuda_devices.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tapa {

namespace {

constexpr std::string_view kGpu = "GPU-";
constexpr std::string_view kPart = "MIG-";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// What an entry of the list names.
struct Named {
  enum class Kind { gpu, nothing, unknown };
  Kind kind = Kind::unknown;
  std::string text;  ///< the PCI address, or why it is unknown
};
Named gpu_at(const std::string& pci) {
  return {Named::Kind::gpu, pci};
}
Named nothing() {
  return {Named::Kind::nothing, {}};
}
Named unknown(std::string why) {
  return {Named::Kind::unknown, std::move(why)};
}

/// Why numbers say nothing of these GPUs; "" when they go by PCI address.
std::string problem_of_numbers(const std::vector<CudaGpu>& gpus, std::string_view order) {
  if (std::ranges::any_of(gpus, &CudaGpu::divided))
    return "a GPU is in MIG mode, beside which numbers count in another way";
  if (order == "PCI_BUS_ID" || gpus.size() == 1) return {};
  const auto same = [&](const CudaGpu& gpu) { return !gpu.model.empty() && gpu.model == gpus[0].model; };
  if (std::ranges::all_of(gpus, same)) return {};
  return "CUDA numbers GPUs of several models by their speed, unless CUDA_DEVICE_ORDER=PCI_BUS_ID";
}

Named by_number(const std::vector<CudaGpu>& gpus, std::string_view entry, std::string_view order) {
  const std::string_view text = without_blanks(entry);
  if (text.empty() || text[0] == '+') return unknown("an entry is empty, or no plain number");
  if (!is_digit(text[0])) return nothing();  // "-1", "none"
  if (!std::ranges::all_of(text, is_digit) || (text[0] == '0' && text.size() > 1))
    return unknown("\"" + std::string(text) + "\" is no plain number");
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number >= gpus.size()) return nothing();
  std::string problem = problem_of_numbers(gpus, order);
  return problem.empty() ? gpu_at(gpus[number].pci) : unknown(std::move(problem));
}

Named by_uuid(const std::vector<CudaGpu>& gpus, std::string_view entry) {
  std::vector<const CudaGpu*> found;
  bool all_known = true;
  for (const CudaGpu& gpu : gpus) {
    all_known = all_known && !gpu.uuid.empty();
    if (gpu.uuid.starts_with(entry)) found.push_back(&gpu);
  }
  if (const auto whole = std::ranges::find(gpus, entry, &CudaGpu::uuid); whole != gpus.end()) {
    found = {&*whole};
  } else if (entry == kGpu || found.size() > 1) {
    return unknown("\"" + std::string(entry) + "\" is the beginning of several UUIDs");
  } else if (!all_known) {
    return unknown("not all UUIDs are known");
  }
  if (found.empty()) return nothing();
  if (found[0]->divided) return unknown("a GPU in MIG mode is not named by one of its parts");
  return gpu_at(found[0]->pci);
}

/// "MIG-UUID", or "MIG-GPU-UUID/INSTANCE/INSTANCE".
Named by_part(const std::vector<CudaGpu>& gpus, std::string_view entry) {
  for (const CudaGpu& gpu : gpus) {
    const std::string old = std::string(kPart) + gpu.uuid + "/";
    if (std::ranges::find(gpu.parts, entry) != gpu.parts.end() ||
        (gpu.divided && !gpu.uuid.empty() && entry.starts_with(old) && entry.size() > old.size()))
      return gpu_at(gpu.pci);
  }
  return unknown("\"" + std::string(entry) + "\" is no part in MIG mode that NVML shows");
}

enum class Form { number, gpu, part };
Form form_of(std::string_view entry) {
  return entry.starts_with(kGpu) ? Form::gpu : entry.starts_with(kPart) ? Form::part : Form::number;
}

/// Whether it looks like a UUID and is not written as nvidia-smi writes it; CUDA may take it all the same.
bool is_odd_uuid(std::string_view entry) {
  std::string small(without_blanks(entry));
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!small.starts_with("gpu-") && !small.starts_with("mig-")) return false;
  const auto odd = [](unsigned char c) { return c <= ' ' || std::isupper(c) != 0; };
  return form_of(entry) == Form::number ||
         (form_of(entry) == Form::gpu && std::ranges::any_of(entry.substr(kGpu.size()), odd));
}

/// Whether an entry has the form of a name.
bool may_name(std::string_view entry) {
  const std::string_view text = without_blanks(entry);
  if (is_odd_uuid(entry)) return false;
  return form_of(entry) != Form::number || (!text.empty() && is_digit(text[0]));
}

/// Whether an entry among numbers names nothing, whatever there is: "-1", "none".
bool names_nothing(std::string_view entry) {
  const std::string_view text = without_blanks(entry);
  return form_of(entry) == Form::number && !is_odd_uuid(entry) && !text.empty() && text[0] != '+' &&
         !is_digit(text[0]);
}

Named name(const std::vector<CudaGpu>& gpus, std::string_view entry, std::string_view order) {
  if (is_odd_uuid(entry))
    return unknown("\"" + std::string(entry) + "\" is not written as nvidia-smi -L does");
  switch (form_of(entry)) {
    case Form::gpu:
      return by_uuid(gpus, entry);
    case Form::part:
      return by_part(gpus, entry);
    case Form::number:
      break;
  }
  return by_number(gpus, entry, order);
}

}  // namespace

bool may_show_one(std::string_view list) {
  const std::size_t comma = list.find(',');
  const std::string_view first = list.substr(0, comma);
  if (!may_name(first)) return false;
  if (comma == std::string_view::npos || comma + 1 == list.size()) return true;
  const std::string_view rest = list.substr(comma + 1);
  return form_of(first) == Form::number && names_nothing(rest.substr(0, rest.find(',')));
}

VisibleGpus visible_gpus(std::vector<CudaGpu> gpus, std::string_view list, std::string_view order) {
  VisibleGpus visible;
  if (without_blanks(list).empty()) return visible;
  if (gpus.empty()) return {{}, "no GPU is known"};
  std::ranges::sort(gpus, {}, &CudaGpu::pci);
  const Form form = form_of(list);
  for (bool more = true; more;) {
    const std::size_t comma = list.find(',');
    const std::string_view entry = list.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) list.remove_prefix(comma + 1);
    if (!visible.known.empty() && entry.empty() && !more) break;  // a comma at the end
    if (form_of(entry) != form) return {{}, "it is a mixture of numbers and UUIDs"};
    Named named = name(gpus, entry, order);
    if (named.kind == Named::Kind::nothing) break;
    if (named.kind == Named::Kind::unknown) return {visible.known, std::move(named.text)};
    if (form == Form::part && !visible.known.empty())
      return {visible.known, "drivers differ in how many parts they show"};
    if (std::ranges::find(visible.known, named.text) != visible.known.end())
      return {{}, "it names a GPU twice"};
    visible.known.push_back(std::move(named.text));
  }
  return visible;
}

}  // namespace tapa
