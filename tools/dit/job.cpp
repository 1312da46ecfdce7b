#include "job.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "exchange/local/local_ranks.hpp"
#include "failure.hpp"
#include "joint_failure.hpp"
#include "launch.hpp"
#include "quantity.hpp"
#include "validators.hpp"

namespace dit::tool {

namespace {

constexpr double kDefaultTimeout = 300;  // seconds

/// tapa where it loads, else the plain MPI plugin.
std::string plugin_for_job() {
  try {
    return ExchangePlugin::load("tapa").name();
  } catch (const ExchangeError&) {
    return "mpi";
  }
}

/// Threads of this process as ranks. What they agree on comes back as one Failure.
void run_local(const JobPlan& plan, const std::function<void(Member&)>& body) {
  LocalGroupOptions group;
  group.ranks = plan.ranks;
  group.ranks_per_node = plan.ranks_per_node;
  group.bytes_per_second = plan.rate;
  std::mutex mutex;
  std::optional<Failure> agreed;
  run_local_ranks(group, [&](ExchangeContext& context) {
    Member member({{plan.plugin, &context}});
    try {
      body(member);
    } catch (const Failure& failure) {
      const std::lock_guard lock(mutex);
      if (!agreed) agreed = failure;
    }
  });
  if (agreed) throw Failure(*agreed);
}

/// Closes in the reverse order: the plugin that started MPI ends it.
class Contexts {
 public:
  void open(const std::string& plugin, double timeout) {
    ExchangeContext::Options options;
    options.timeout_seconds = timeout;
    open_.emplace_back(plugin, std::make_unique<ExchangeContext>(ExchangePlugin::load(plugin), options));
  }
  ~Contexts() {
    while (!open_.empty()) open_.pop_back();
  }
  void leave_open() {
    // Until the process ends; what checks for leaks finds them here.
    static auto* const left = new std::vector<std::unique_ptr<ExchangeContext>>;
    for (auto& [name, context] : open_) left->push_back(std::move(context));
    open_.clear();
  }
  [[nodiscard]] std::vector<std::pair<std::string, ExchangeContext*>> list() const {
    std::vector<std::pair<std::string, ExchangeContext*>> list;
    for (const auto& [name, context] : open_) list.emplace_back(name, context.get());
    return list;
  }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<ExchangeContext>>> open_;
};

/// Where ranks meet whose work has failed; who does not come within this time has not failed.
constexpr double seconds_to_meet = 4;

/// Said before anybody leaves: launchers end a job when its first process exits with a status.
[[noreturn]] void leave_together(const Member& member, const Failure& failure) {
  if (member.leads() && !failure.said()) say(failure.what());
  member.barrier();
  throw Failure(failure.status(), failure.what(), true);
}

/// For a rank whose work threw, while others may be in the middle of theirs. Where all ranks failed they
/// leave together; else this one speaks for itself and ends the job.
[[noreturn]] void leave_alone(const Member& meeting, const Verdict& own) {
  std::optional<Failure> failure;
  try {
    failure = joint_failure(meeting.verdicts(own));
  } catch (const ExchangeError&) {
    // Ranks that only follow let the cause be told first; of several causes one is enough.
    const double later = own.follows ? seconds_to_meet : 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(later + 0.2 * std::min(meeting.rank(), 10)));
    say("rank " + std::to_string(meeting.rank()) + ": " + own.line);
    meeting.context()->abort_job(own.status);
  }
  leave_together(meeting, *failure);
}

/// This process as a rank of a job.
void run_process(const JobPlan& plan, const std::vector<std::string>& more_plugins,
                 const std::function<void(Member&)>& body) {
  Contexts contexts;
  const auto open = [&](const std::string& plugin) {
    contexts.open(plugin, plugin == plan.unlimited ? 0 : plan.timeout);
  };
  open(plan.plugin);
  std::for_each(more_plugins.begin(), more_plugins.end(), open);
  Member member(contexts.list());
  if (member.size() == 1) return body(member);
  Contexts apart;
  apart.open(plan.plugin, seconds_to_meet);
  try {
    body(member);
  } catch (const Failure& failure) {
    leave_together(member, failure);
  } catch (...) {
    const Verdict verdict = verdict_of(std::current_exception());
    contexts.leave_open();  // ranks may be inside exchanges, and closing waits for them
    leave_alone(Member(apart.list()), verdict);
  }
}

}  // namespace

void declare(CLI::App& app, JobWords& words) {
  const std::string group = "Ranks";
  app.add_option("--plugin", words.plugin,
                 "exchange plugin: local (threads of this process), mpi, tapa, or another one's name or "
                 "path; default: "
                 "tapa or mpi under mpirun, else local")
      ->group(group);
  app.add_option("--ranks", words.ranks, "ranks of the local plugin (default 1); under mpirun the job's size")
      ->check(whole_number(1, 1024))
      ->group(group);
  app.add_option("--ranks-per-node", words.ranks_per_node, "local plugin: this many ranks count as a node")
      ->check(whole_number(1, 1024))
      ->group(group);
  app.add_option("--rate", words.rate, "local plugin: emulated rate of each node's NIC, such as 100mbit")
      ->transform(rate_value())
      ->group(group);
  app.add_option("--timeout", words.timeout,
                 "a wait for other ranks that takes longer is an error (default 300s; 0s: none is)")
      ->transform(duration_value())
      ->group(group);
  app.add_option("--threads", words.threads, "compute threads of each rank; default: its share of the cores")
      ->check(whole_number(1, 1024))
      ->group(group);
}

ExchangeContext* Member::context(const std::string& plugin) const {
  for (const auto& [name, context] : contexts_) {
    if (name == plugin) return context;
  }
  if (contexts_.empty()) return nullptr;
  throw std::logic_error("no context of plugin " + plugin);
}

namespace {

Verdict verdict_on(const std::function<void()>& step) {
  try {
    step();
    return {0, "", false};
  } catch (...) {
    return verdict_of(std::current_exception());
  }
}

}  // namespace

void Member::together(const std::function<void()>& step) const {
  if (const auto failure = joint_failure(verdicts(verdict_on(step)))) throw Failure(*failure);
}

void Member::on_leader(const std::function<void()>& step) const {
  const Verdict own = leads() ? verdict_on(step) : Verdict{0, "", false};
  const Verdict first = verdicts(own).front();
  if (first.status != 0) throw Failure(first.status, first.line, first.said);
}

std::vector<Verdict> Member::verdicts(const Verdict& own) const {
  if (context() == nullptr) return {own};
  const std::array<int, 3> figures = {own.status, own.said ? 1 : 0, own.follows ? 1 : 0};
  std::vector<Verdict> all;
  bool all_good = true;
  for (const auto& of_rank : gather_values(std::span<const int>(figures))) {
    all.push_back({of_rank[0], "", of_rank[1] != 0, of_rank[2] != 0});
    all_good = all_good && of_rank[0] == 0;
  }
  if (all_good) return all;
  const auto lines = gather_values(std::span<const char>(own.line));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].line.assign(lines[rank].begin(), lines[rank].end());
  }
  return all;
}

void Member::barrier() const {
  if (context() != nullptr) context()->barrier();
}

std::vector<std::vector<std::byte>> Member::gather(std::span<const std::byte> own) const {
  if (context() == nullptr) return {std::vector<std::byte>(own.begin(), own.end())};
  const auto ranks = static_cast<std::size_t>(size());
  const std::uint64_t bytes = own.size();
  std::vector<std::uint64_t> sizes(ranks);
  const std::vector<std::byte> sizes_of_all = context()->all_gather(std::as_bytes(std::span(&bytes, 1)));
  std::memcpy(sizes.data(), sizes_of_all.data(), ranks * sizeof(std::uint64_t));
  // All ranks give the same number of bytes: the longest.
  const std::size_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::byte> padded(own.begin(), own.end());
  padded.resize(longest);
  const std::vector<std::byte> all = context()->all_gather(padded);
  std::vector<std::vector<std::byte>> result;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * longest);
    result.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(sizes[rank]));
  }
  return result;
}

JobPlan plan_job(const JobWords& words) {
  const std::optional<Launch> launch = launch_from_environment();
  const bool job = launch && launch->size > 1;
  JobPlan plan;
  plan.plugin = !words.plugin.empty() ? words.plugin : launch ? plugin_for_job() : "local";
  plan.local = plan.plugin == "local";
  plan.ranks_per_node = words.ranks_per_node;
  plan.rate = words.rate;
  plan.timeout = words.timeout.value_or(kDefaultTimeout);
  if (plan.local && job) {
    throw std::invalid_argument("--plugin is local, but this is a job of " + std::to_string(launch->size) +
                                " processes: expected mpi, tapa or another plugin that joins processes");
  }
  plan.ranks = plan.local ? std::max(1, words.ranks) : launch ? launch->size : 1;
  if (!plan.local && words.ranks > 0 && words.ranks != plan.ranks) {
    throw std::invalid_argument(
        "--ranks is " + std::to_string(words.ranks) + ", but the job has " + std::to_string(plan.ranks) +
        (plan.ranks == 1 ? " process: start it by mpirun -n " + std::to_string(words.ranks)
                         : " processes: leave it out"));
  }
  if (!plan.local && (words.ranks_per_node > 0 || words.rate > 0)) {
    throw std::invalid_argument(std::string(words.rate > 0 ? "--rate" : "--ranks-per-node") +
                                " is for --plugin local, but the plugin is " + plan.plugin);
  }
  if (plan.rate > 0 && plan.ranks_per_node == 0) {
    throw std::invalid_argument("--rate is the rate between nodes: expected --ranks-per-node with it");
  }
  plan.threads = words.threads;
  return plan;
}

void run_job(const JobPlan& plan, const std::vector<std::string>& more_plugins,
             const std::function<void(Member&)>& body) {
  if (plan.threads > 0) setenv("DIT_THREADS", std::to_string(plan.threads).c_str(), 1);  // read by the engine
  if (!plan.local) {
    run_process(plan, more_plugins, body);
  } else if (plan.ranks == 1) {
    Member alone({});
    body(alone);
  } else {
    run_local(plan, body);
  }
}

void run_job(const JobPlan& plan, const std::function<void(Member&)>& body) {
  run_job(plan, {}, body);
}

}  // namespace dit::tool
