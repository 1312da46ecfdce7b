// Where a process is, from /sys alone: as hwloc sees it, on this machine and on trees of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "topology/hwloc_source.hpp"
#include "topology/sysfs.hpp"

namespace tapa {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

/// A machine whose CPUs are numbered core by core, or thread by thread as most are.
struct Shape {
  int sockets;
  int nodes;   // NUMA nodes of a socket
  int caches;  // L3 of a NUMA node
  int cores;   // of an L3
  int threads;
  bool threads_apart;

  [[nodiscard]] int all_cores() const { return sockets * nodes * caches * cores; }
  [[nodiscard]] int cpus() const { return all_cores() * threads; }
  [[nodiscard]] int core_of(int cpu) const { return threads_apart ? cpu % all_cores() : cpu / threads; }
};

/// The files of /sys that say so, with a NIC at each NUMA node.
class Tree {
 public:
  explicit Tree(const Shape& shape)
      : root_(fs::temp_directory_path() / ("tapa-places-" + std::to_string(::getpid()))), shape_(shape) {
    const std::string all = list_of([](int) { return true; });
    for (const char* name : {"online", "possible", "present"})
      file("devices/system/cpu/" + std::string(name), all);
    file("kernel/mm/hugepages/none", "");
    for (int cpu = 0; cpu < shape.cpus(); ++cpu) write_cpu(cpu);
    const int nodes = shape.sockets * shape.nodes;
    file("devices/system/node/online", nodes == 1 ? "0" : "0-" + std::to_string(nodes - 1));
    for (int node = 0; node < nodes; ++node) write_node(node, nodes);
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  [[nodiscard]] std::string root() const { return root_.string(); }
  [[nodiscard]] std::string sys() const { return (root_ / "sys").string(); }
  [[nodiscard]] std::vector<int> cpus() const {
    return parse_cpu_list(read_line(sys() + "/devices/system/cpu/online"));
  }

  [[nodiscard]] std::vector<Nic> nics() const {
    std::vector<Nic> list;
    for (int node = 0; node < shape_.sockets * shape_.nodes; ++node)
      list.push_back({"nic" + std::to_string(node), 0, 1e9, {}, address(node), "verbs", -1});
    return list;
  }

 private:
  static std::string address(int node) { return "0000:" + std::to_string(10 + node) + ":00.0"; }

  void file(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / "sys" / path).parent_path());
    std::ofstream(root_ / "sys" / path) << text << "\n";
  }

  template <class Is>
  [[nodiscard]] std::vector<int> those(const Is& is) const {
    std::vector<int> list;
    for (int cpu = 0; cpu < shape_.cpus(); ++cpu) {
      if (is(cpu)) list.push_back(cpu);
    }
    return list;
  }
  template <class Is>
  [[nodiscard]] std::string list_of(const Is& is) const {
    return cpu_list(those(is));
  }
  /// As the kernel writes masks: 32 bits a word, the last first.
  template <class Is>
  [[nodiscard]] std::string mask_of(const Is& is) const {
    std::vector<unsigned> words(static_cast<std::size_t>(shape_.cpus() - 1) / 32 + 1);
    for (const int cpu : those(is)) words[static_cast<std::size_t>(cpu) / 32] |= 1U << (cpu % 32);
    std::string text;
    for (auto word = words.rbegin(); word != words.rend(); ++word) {
      char hex[16];
      std::snprintf(hex, sizeof hex, "%s%08x", text.empty() ? "" : ",", *word);
      text += hex;
    }
    return text;
  }
  /// Both forms, under the names of new kernels and old ones.
  template <class Is>
  void put(const std::string& folder, const char* name, const char* old_name, const Is& is) const {
    for (const char* each : {name, old_name}) {
      file(folder + each, mask_of(is));
      file(folder + each + "_list", list_of(is));
    }
  }

  void write_cpu(int cpu) const {
    const std::string folder = "devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    const auto same = [&](int cores) {
      return [this, cpu, cores](int other) {
        return shape_.core_of(cpu) / cores == shape_.core_of(other) / cores;
      };
    };
    const int in_cache = shape_.cores;
    const int in_socket = shape_.cores * shape_.caches * shape_.nodes;
    file(folder + "topology/physical_package_id", std::to_string(shape_.core_of(cpu) / in_socket));
    file(folder + "topology/core_id", std::to_string(shape_.core_of(cpu) % in_socket));
    put(folder + "topology/", "core_cpus", "thread_siblings", same(1));
    put(folder + "topology/", "package_cpus", "core_siblings", same(in_socket));
    write_cache(folder + "cache/index0/", 1, "Data", same(1));
    write_cache(folder + "cache/index1/", 3, "Unified", same(in_cache));
  }

  template <class Is>
  void write_cache(const std::string& folder, int level, const char* type, const Is& is) const {
    file(folder + "level", std::to_string(level));
    file(folder + "type", type);
    file(folder + "size", "1024K");
    file(folder + "shared_cpu_map", mask_of(is));
    file(folder + "shared_cpu_list", list_of(is));
  }

  void write_node(int node, int nodes) const {
    const auto here = [&](int cpu) { return shape_.core_of(cpu) / (shape_.cores * shape_.caches) == node; };
    const std::string folder = "devices/system/node/node" + std::to_string(node) + "/";
    file(folder + "cpumap", mask_of(here));
    file(folder + "cpulist", list_of(here));
    file(folder + "meminfo", "Node " + std::to_string(node) + " MemTotal:       1048576 kB");
    std::string distances;
    for (int other = 0; other < nodes; ++other) distances += other == node ? "10 " : "20 ";
    file(folder + "distance", distances);
    const std::string pci = "bus/pci/devices/" + address(node) + "/";
    file(pci + "vendor", "0x15b3");
    file(pci + "device", "0x1017");
    file(pci + "class", "0x020700");
    file(pci + "subsystem_vendor", "0x15b3");
    file(pci + "subsystem_device", "0x0001");
    file(pci + "numa_node", std::to_string(node));
    file(pci + "local_cpus", mask_of(here));
    file(pci + "local_cpulist", list_of(here));
  }

  fs::path root_;
  Shape shape_;
};

#ifdef TAPA_HAVE_HWLOC

void expect_same(const Record& sys, const Record& hwloc) {
  EXPECT_EQ(sys.cores, hwloc.cores);
  EXPECT_EQ(sys.allowed, hwloc.allowed);
  EXPECT_EQ(sys.bound_cores, hwloc.bound_cores);
  EXPECT_EQ(sys.cpus, hwloc.cpus);
  EXPECT_EQ(sys.l3, hwloc.l3);
  EXPECT_EQ(sys.numa, hwloc.numa);
  EXPECT_EQ(sys.socket, hwloc.socket);
  EXPECT_EQ(sys.near, hwloc.near);
  ASSERT_EQ(sys.nics.size(), hwloc.nics.size());
  for (std::size_t n = 0; n < sys.nics.size(); ++n) EXPECT_EQ(sys.nics[n].numa, hwloc.nics[n].numa);
}

/// Binds this process to one CPU for the time of a test: all its threads, as QEMU's user mode has one of its
/// own.
class Binding {
 public:
  explicit Binding(int cpu) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    bind_to(one);
  }
  ~Binding() { bind_to(before_); }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

 private:
  static void bind_to(const cpu_set_t& cpus) {
    for (const auto& thread : fs::directory_iterator("/proc/self/task"))
      ::sched_setaffinity(std::stoi(thread.path().filename()), sizeof cpus, &cpus);
  }

  cpu_set_t before_{};
};

std::string no_variable(const char*) {
  return {};
}

TEST(Places, ThisMachineAsHwlocSeesIt) {
  const auto compare = [] {
    Record sys;
    for (const Interface& i : list_interfaces("/sys")) sys.nics.push_back(i.nic);
    Record hwloc = sys;
    ASSERT_TRUE(add_places("/sys", allowed_cpus("/proc", "/sys"), scheduled_cpus(), sys));
    ASSERT_TRUE(add_hwloc(no_variable, {}, hwloc));
    expect_same(sys, hwloc);
  };
  compare();
  const std::vector<int> mine = scheduled_cpus();
  for (const int cpu : {mine.front(), mine.back()}) {
    const Binding binding(cpu);
    compare();
  }
}

/// hwloc reads the same tree, and takes this process's binding as one on that machine.
TEST(Places, OtherMachinesAsHwlocSeesThem) {
  ::setenv("HWLOC_THISSYSTEM", "1", 1);
  ::setenv("HWLOC_COMPONENTS", "linux,stop", 1);
  const std::vector<int> mine = scheduled_cpus();
  for (const Shape& shape :
       {Shape{1, 1, 1, 2, 1, false}, Shape{1, 1, 1, 4, 2, true}, Shape{2, 1, 1, 2, 2, false},
        Shape{2, 2, 1, 3, 1, false}, Shape{2, 1, 3, 2, 2, true}, Shape{1, 4, 2, 4, 2, true},
        Shape{4, 2, 2, 8, 2, true}}) {
    const Tree tree(shape);
    ::setenv("HWLOC_FSROOT", tree.root().c_str(), 1);
    for (const int cpu : {-1, mine.front(), mine.back()}) {
      std::optional<Binding> binding;
      if (cpu >= 0) binding.emplace(cpu);
      Record sys;
      sys.nics = tree.nics();
      Record hwloc = sys;
      SCOPED_TRACE(std::to_string(shape.sockets) + " sockets, " + std::to_string(shape.cpus()) +
                   " CPUs, on " + cpu_list(scheduled_cpus()));
      ASSERT_TRUE(add_places(tree.sys(), tree.cpus(), scheduled_cpus(), sys));
      ASSERT_TRUE(add_hwloc(no_variable, {}, hwloc));
      EXPECT_EQ(sys.cores, shape.all_cores());
      expect_same(sys, hwloc);
    }
  }
  for (const char* name : {"HWLOC_THISSYSTEM", "HWLOC_COMPONENTS", "HWLOC_FSROOT"}) ::unsetenv(name);
}

#endif

TEST(Places, OfARankOnTwoSockets) {
  const Tree tree({2, 2, 1, 4, 2, true});  // 16 cores; core c has CPUs c and c + 16
  const auto places = [&](const std::vector<int>& cpus) {
    Record record;
    record.nics = tree.nics();
    EXPECT_TRUE(add_places(tree.sys(), tree.cpus(), cpus, record));
    return record;
  };
  const Record core = places({9, 25});
  EXPECT_EQ(core.bound_cores, 1);
  EXPECT_EQ(core.cpus, "9,25");
  EXPECT_EQ(core.l3, 8);
  EXPECT_EQ(core.numa, 2);
  EXPECT_EQ(core.socket, 1);
  EXPECT_THAT(core.near, ElementsAre(2));
  EXPECT_EQ(core.nics[3].numa, 3);
  const Record socket = places({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(socket.bound_cores, 8);
  EXPECT_EQ(socket.l3, -1);
  EXPECT_EQ(socket.numa, -1);
  EXPECT_EQ(socket.socket, 0);
  EXPECT_THAT(socket.near, ElementsAre(0, 1));
  const Record all = places(tree.cpus());
  EXPECT_EQ(all.bound_cores, 0);
  EXPECT_EQ(all.cores, 16);
  EXPECT_EQ(all.socket, -1);
  EXPECT_THAT(all.near, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(places({99}).bound_cores, 0);  // of another machine: taken as not bound
}

TEST(Places, NothingInSys) {
  Record record;
  EXPECT_FALSE(add_places("/does/not/exist", {}, {0}, record));
  EXPECT_EQ(record.cores, 0);
  EXPECT_TRUE(add_places("/does/not/exist", {0, 1}, {1}, record));
  EXPECT_EQ(record.cores, 2);  // without topology a CPU is a core
  EXPECT_EQ(record.socket, -1);
}

class Groups : public testing::Test {
 protected:
  Groups() : root_(fs::temp_directory_path() / ("tapa-groups-" + std::to_string(::getpid()))) {
    file("sys/devices/system/cpu/online", "0-15");
  }
  ~Groups() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  [[nodiscard]] std::string allowed() const {
    return cpu_list(allowed_cpus((root_ / "proc").string(), (root_ / "sys").string()));
  }

  fs::path root_;
};

TEST_F(Groups, OfEitherVersionLeaveSomeCpus) {
  EXPECT_EQ(allowed(), "0-15");
  file("proc/self/cgroup", "0::/job/step");
  EXPECT_EQ(allowed(), "0-15");
  file("sys/fs/cgroup/job/cpuset.cpus.effective", "4-7,20");  // the step has no cpuset of its own
  EXPECT_EQ(allowed(), "4-7");
  file("proc/self/cgroup", "3:cpu,cpuset:/task\n0::/job");
  file("sys/fs/cgroup/cpuset/task/cpuset.cpus", "2-3");
  EXPECT_EQ(allowed(), "2-3");
  file("proc/self/cgroup", "0::/../elsewhere");
  EXPECT_EQ(allowed(), "0-15");
}

TEST(CpuLists, Parsed) {
  EXPECT_THAT(parse_cpu_list("0-2,5,7-8"), ElementsAre(0, 1, 2, 5, 7, 8));
  EXPECT_THAT(parse_cpu_list("3"), ElementsAre(3));
  for (const char* bad : {"", "x", "3-1", "-1", "0-99999999", "5,2"})
    EXPECT_THAT(parse_cpu_list(bad), IsEmpty());
}

}  // namespace
}  // namespace tapa
