#include "topology/record.hpp"

#include "topology/json_reader.hpp"

namespace tapa {

namespace {

constexpr std::size_t max_record_bytes = std::size_t{1} << 16;
constexpr std::size_t max_record_nics = 256;
constexpr std::size_t max_record_gpus = 64;
constexpr std::size_t max_record_links = 64;
constexpr std::size_t max_reports = 32;
constexpr int max_count = 1 << 20;

using Json = nlohmann::ordered_json;

void put(Json& out, const char* key, const std::string& value) {
  if (!value.empty()) out[key] = value;
}

void put(Json& out, const char* key, int value, int unknown) {
  if (value != unknown) out[key] = value;
}

Json nic_to_json(const Nic& nic) {
  Json out = {{"name", nic.name}};
  if (nic.bandwidth) out["bandwidth"] = *nic.bandwidth;
  put(out, "pci", nic.pci);
  put(out, "provider", nic.provider);
  put(out, "numa", nic.numa, -1);
  return out;
}

Json gpu_to_json(const Gpu& gpu) {
  Json out = {{"gpu", gpu.gpu}};
  put(out, "name", gpu.name);
  put(out, "pci", gpu.pci);
  put(out, "numa", gpu.numa, -1);
  put(out, "tile", gpu.tile, -1);
  return out;
}

Json links_to_json(const GpuLinks& gpu) {
  Json out = {{"pci", gpu.pci}};
  put(out, "name", gpu.name);
  if (gpu.pcie) out["pcie"] = *gpu.pcie;
  for (const NvLink& link : gpu.links) {
    Json entry = {{"count", link.count}, {"bandwidth", link.bandwidth}};
    put(entry, "peer", link.peer);
    out["links"].push_back(std::move(entry));
  }
  if (!gpu.refuses.empty()) out["refuses"] = gpu.refuses;
  return out;
}

Json facts_to_json(const HostFacts& facts) {
  Json out = Json::object();
  put(out, "cpu", facts.cpu);
  put(out, "sockets", facts.sockets, 0);
  put(out, "numa_nodes", facts.numa_nodes, 0);
  put(out, "gpus", facts.gpus, 0);
  if (facts.memory > 0) out["memory"] = facts.memory;
  put(out, "huge_pages", facts.huge_pages);
  put(out, "ptrace_scope", facts.ptrace_scope, -1);
  if (facts.shm_free > 0) out["shm_free"] = facts.shm_free;
  return out;
}

std::string text_or_empty(const JsonReader& from, const std::string& key, std::size_t max = 256) {
  return from.has(key) ? from.at(key).text(max, true) : std::string();
}

int integer_or(const JsonReader& from, const std::string& key, int min, int unknown) {
  return from.has(key) ? from.at(key).integer(min, max_count) : unknown;
}

Nic nic_from(const JsonReader& from) {
  from.only_keys({"name", "bandwidth", "pci", "provider", "numa"});
  Nic nic;
  nic.name = from.at("name").text(64);
  nic.bandwidth = from.positive_or_none("bandwidth", "bytes per second");
  nic.pci = text_or_empty(from, "pci", 32);
  nic.provider = text_or_empty(from, "provider", 64);
  nic.numa = integer_or(from, "numa", 0, -1);
  return nic;
}

Gpu gpu_from(const JsonReader& from) {
  from.only_keys({"gpu", "name", "pci", "numa", "tile"});
  return {text_or_empty(from, "name", 64), text_or_empty(from, "pci", 32), integer_or(from, "numa", 0, -1),
          from.at("gpu").integer(0, max_count), integer_or(from, "tile", 0, -1)};
}

GpuLinks links_from(const JsonReader& from) {
  from.only_keys({"pci", "name", "pcie", "links", "refuses"});
  GpuLinks gpu{from.at("pci").text(32),
               text_or_empty(from, "name", 128),
               from.positive_or_none("pcie", "bytes per second"),
               {}};
  if (from.has("refuses"))
    gpu.refuses =
        from.at("refuses").each(0, max_record_gpus, "GPUs", [](const auto& gpu) { return gpu.text(32); });
  if (!from.has("links")) return gpu;
  const JsonReader links = from.at("links");
  const std::size_t count = links.size(0, max_record_links, "links");
  for (std::size_t l = 0; l < count; ++l) {
    const JsonReader link = links.at(l);
    link.only_keys({"peer", "count", "bandwidth"});
    const auto rate = link.positive_or_none("bandwidth", "bytes per second");
    if (!rate) link.fail_with("has no \"bandwidth\"");
    gpu.links.push_back({text_or_empty(link, "peer", 32), link.at("count").integer(1, 64), *rate});
  }
  return gpu;
}

HostFacts facts_from(const JsonReader& from) {
  from.only_keys(
      {"cpu", "sockets", "numa_nodes", "gpus", "memory", "huge_pages", "ptrace_scope", "shm_free"});
  HostFacts facts;
  facts.cpu = text_or_empty(from, "cpu");
  facts.sockets = integer_or(from, "sockets", 0, 0);
  facts.numa_nodes = integer_or(from, "numa_nodes", 0, 0);
  facts.gpus = integer_or(from, "gpus", 0, 0);
  facts.memory = from.positive_or_none("memory", "bytes").value_or(0);
  facts.huge_pages = text_or_empty(from, "huge_pages");
  facts.ptrace_scope = integer_or(from, "ptrace_scope", 0, -1);
  facts.shm_free = from.positive_or_none("shm_free", "bytes").value_or(-1);
  return facts;
}

void read_nics(const JsonReader& from, Record& record) {
  if (!from.has("nics")) return;
  record.nics = from.at("nics").each(0, max_record_nics, "NICs", nic_from);
  const std::size_t count = record.nics.size();
  const auto number = [&](const JsonReader& nic) { return nic.integer(0, static_cast<int>(count) - 1); };
  if (from.has("near")) record.near = from.at("near").each(0, count, "NICs", number);
}

void read_reports(const JsonReader& from, Record& record) {
  if (from.has("sources")) {
    const JsonReader sources = from.at("sources");
    const std::size_t count = sources.size(0, max_reports, "sources");
    for (std::size_t s = 0; s < count; ++s) {
      const JsonReader entry = sources.at(s);
      entry.only_keys({"name", "used", "detail"});
      record.sources.push_back(
          {entry.at("name").identifier(), entry.at("used").boolean(), text_or_empty(entry, "detail", 1024)});
    }
  }
  if (from.has("notes"))
    record.notes =
        from.at("notes").each(0, max_reports, "notes", [](const auto& note) { return note.text(1024); });
}

/// Drops control characters, which a reader refuses: names from the system and the environment may hold any
/// byte.
std::string printable(std::string text, std::size_t max) {
  std::erase_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (text.size() > max) text.resize(max);
  return text;
}

}  // namespace

std::string to_json(const Record& record) {
  Json out = {{"schema", "tapa-record/1"}};
  put(out, "host", printable(record.host, 256));
  put(out, "kernel", record.kernel);
  put(out, "node", printable(record.node, 512));
  put(out, "rack", printable(record.rack, 256));
  put(out, "cores", record.cores, 0);
  put(out, "allowed", printable(record.allowed, 1024));
  put(out, "bound_cores", record.bound_cores, 0);
  put(out, "cpus", printable(record.cpus, 1024));
  put(out, "l3", record.l3, -1);
  put(out, "numa", record.numa, -1);
  put(out, "socket", record.socket, -1);
  if (record.gpu.gpu >= 0) out["gpu"] = gpu_to_json(record.gpu);
  for (const GpuLinks& gpu : record.gpus) out["gpus"].push_back(links_to_json(gpu));
  put(out, "gpu_peers", printable(record.gpu_peers, 256));
  for (const Nic& nic : record.nics) out["nics"].push_back(nic_to_json(nic));
  if (!record.near.empty()) out["near"] = record.near;
  for (const SourceReport& s : record.sources) {
    out["sources"].push_back({{"name", s.name}, {"used", s.used}, {"detail", printable(s.detail, 1024)}});
  }
  for (const std::string& note : record.notes) out["notes"].push_back(printable(note, 1024));
  out["facts"] = facts_to_json(record.facts);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Record parse_record(std::string_view json_text, const std::string& origin) {
  const nlohmann::json document = parse_json(json_text, origin, max_record_bytes);
  const JsonReader from(document, origin);
  from.only_keys({"schema",      "host", "kernel", "node",    "rack",   "cores", "allowed",
                  "bound_cores", "cpus", "l3",     "numa",    "socket", "gpu",   "gpus",
                  "gpu_peers",   "nics", "near",   "sources", "notes",  "facts"});
  if (from.at("schema").text() != "tapa-record/1") from.at("schema").fail("\"tapa-record/1\"");
  Record record;
  record.host = text_or_empty(from, "host");
  record.kernel = text_or_empty(from, "kernel");
  record.node = text_or_empty(from, "node", 512);
  record.rack = text_or_empty(from, "rack");
  record.cores = integer_or(from, "cores", 0, 0);
  record.allowed = text_or_empty(from, "allowed", 1024);
  record.bound_cores = integer_or(from, "bound_cores", 0, 0);
  record.cpus = text_or_empty(from, "cpus", 1024);
  record.l3 = integer_or(from, "l3", 0, -1);
  record.numa = integer_or(from, "numa", 0, -1);
  record.socket = integer_or(from, "socket", 0, -1);
  if (from.has("gpu")) record.gpu = gpu_from(from.at("gpu"));
  record.gpu_peers = text_or_empty(from, "gpu_peers");
  if (from.has("gpus")) record.gpus = from.at("gpus").each(0, max_record_gpus, "GPUs", links_from);
  read_nics(from, record);
  read_reports(from, record);
  if (from.has("facts")) record.facts = facts_from(from.at("facts"));
  return record;
}

}  // namespace tapa
