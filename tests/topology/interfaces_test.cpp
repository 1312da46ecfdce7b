// What /sys says, from a folder that looks like /sys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "topology/libfabric_source.hpp"
#include "topology/sysfs.hpp"

namespace tapa {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class Sys : public testing::Test {
 protected:
  Sys() : root_(fs::temp_directory_path() / ("tapa-sys-" + std::to_string(::getpid()))) {
    fs::create_directories(root_);
  }
  ~Sys() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }

  /// A network interface; with `pci` it has a device below that PCI function.
  void net(const std::string& name, const std::string& pci, const std::string& speed,
           const std::string& state = "up", const std::string& type = "1") {
    file("class/net/" + name + "/type", type);
    file("class/net/" + name + "/operstate", state);
    if (!speed.empty()) file("class/net/" + name + "/speed", speed);
    if (!pci.empty()) device("class/net/" + name, pci, "/virtio0");
  }

  void infiniband(const std::string& name, const std::string& pci, const std::string& rate,
                  const std::string& layer, const std::string& state = "4: ACTIVE") {
    file("class/infiniband/" + name + "/ports/1/rate", rate);
    file("class/infiniband/" + name + "/ports/1/link_layer", layer);
    file("class/infiniband/" + name + "/ports/1/state", state);
    device("class/infiniband/" + name, pci, "");
  }

  void device(const std::string& of, const std::string& pci, const std::string& below) {
    file("devices/pci0000:00/" + pci + below + "/numa_node", "1");
    fs::create_directory_symlink(root_ / ("devices/pci0000:00/" + pci + below), root_ / of / "device");
  }

  std::vector<std::string> rails(const std::string& wanted = "") {
    std::vector<std::string> names;
    notes_.clear();
    for (const Nic& nic : choose_rails(list_interfaces(root_.string()), wanted, notes_))
      names.push_back(nic.name);
    return names;
  }

  fs::path root_;
  std::vector<std::string> notes_;
};

TEST_F(Sys, AnEmulatedNodeHasItsVirtualNics) {
  net("lo", "", "", "unknown", "772");
  net("mgmt", "", "10000");
  for (const char* name : {"nic10", "nic0", "nic2"}) net(name, "", "10000");
  net("br0", "", "10000");
  file("class/net/br0/bridge/bridge_id", "1");
  net("port0", "", "10000");
  file("class/net/port0/brport/state", "3");
  net("tun0", "", "10", "unknown", "65534");
  net("ifb0", "", "", "down");
  EXPECT_THAT(rails(), ElementsAre("nic0", "nic2", "nic10"));
  const std::vector<Interface> all = list_interfaces(root_.string());
  EXPECT_FALSE(all[0].nic.bandwidth.has_value());  // a veth's speed is made up
  EXPECT_EQ(all[0].nic.provider, "tcp");
}

TEST_F(Sys, RealNicsBeatVirtualOnes) {
  net("veth0", "", "10000");
  net("eth1", "0000:00:03.0", "25000");
  net("eth0", "0000:00:04.0", "1000");  // slow: management
  net("eth2", "0000:00:05.0", "-1");
  EXPECT_THAT(rails(), ElementsAre("eth1", "eth2"));
  const std::vector<Interface> all = list_interfaces(root_.string());
  EXPECT_EQ(all[1].nic.name, "eth1");
  EXPECT_EQ(all[1].nic.bandwidth, 25e9 / 8);
  EXPECT_EQ(all[1].nic.pci, "0000:00:03.0");
  EXPECT_EQ(all[1].nic.numa, 1);
  EXPECT_FALSE(has_rdma_device(root_.string()));
}

TEST_F(Sys, RdmaDevicesTakeThePlaceOfTheirInterfaces) {
  net("eth0", "0000:00:04.0", "100000");
  net("ib0", "0000:18:00.0", "", "up", "32");
  infiniband("mlx5_0", "0000:18:00.0", "400 Gb/sec (4X NDR)", "InfiniBand");
  infiniband("mlx5_10", "0000:2a:00.0", "400 Gb/sec (4X NDR)", "InfiniBand");
  infiniband("mlx5_3", "0000:29:00.0", "400 Gb/sec (4X NDR)", "InfiniBand", "1: DOWN");
  infiniband("mlx5_1", "0000:19:00.0", "100 Gb/sec (4X EDR)", "Ethernet");
  EXPECT_THAT(rails(), ElementsAre("mlx5_0", "mlx5_10"));
  EXPECT_EQ(list_interfaces(root_.string()).size(), 4u);
  EXPECT_TRUE(has_rdma_device(root_.string()));
}

TEST_F(Sys, RoceBeatsPlainEthernet) {
  net("eth0", "0000:00:04.0", "100000");
  infiniband("mlx5_1", "0000:19:00.0", "100 Gb/sec (4X EDR)", "Ethernet");
  EXPECT_THAT(rails(), ElementsAre("mlx5_1"));
}

TEST_F(Sys, SlingshotTakesTheSpeedOfItsInterface) {
  net("hsn0", "0000:18:00.0", "200000");
  file("class/cxi/cxi0/name", "cxi0");
  device("class/cxi/cxi0", "0000:18:00.0", "");
  const std::vector<Interface> all = list_interfaces(root_.string());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].nic.name, "cxi0");
  EXPECT_EQ(all[0].nic.bandwidth, 25e9);
  EXPECT_EQ(all[0].nic.provider, "cxi");
}

TEST_F(Sys, TheEnvironmentNamesRails) {
  net("eth0", "0000:00:04.0", "1000");
  net("eth1", "0000:00:05.0", "100000");
  EXPECT_THAT(rails("eth1,eth0"), ElementsAre("eth1", "eth0"));
  EXPECT_THAT(rails("eth1,eth9"), ElementsAre("eth1"));
  EXPECT_THAT(notes_, ElementsAre("TAPA_NICS=eth1,eth9: there is no interface \"eth9\" that is up"));
}

TEST_F(Sys, Nothing) {
  EXPECT_THAT(rails(), IsEmpty());
  EXPECT_FALSE(has_rdma_device(root_.string()));
}

TEST_F(Sys, GpusOnThePciBus) {
  EXPECT_FALSE(has_gpu(root_.string()));
  const auto pci = [&](const std::string& address, const std::string& kind, const std::string& vendor) {
    file("bus/pci/devices/" + address + "/class", kind);
    file("bus/pci/devices/" + address + "/vendor", vendor);
  };
  pci("0000:00:03.0", "0x020000", "0x8086");
  pci("0000:00:04.0", "0x030000", "0x1013");  // a virtual machine's display
  EXPECT_FALSE(has_gpu(root_.string()));
  pci("0000:18:00.0", "0x030200", "0x10de");
  EXPECT_TRUE(has_gpu(root_.string()));
}

TEST_F(Sys, HostFacts) {
  file("kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  file("proc/cpuinfo", "processor : 0\nmodel name\t: A CPU");
  file("proc/sys/kernel/yama/ptrace_scope", "1");
  Record record;
  add_host_facts((root_ / "proc").string(), root_.string(), record);
  EXPECT_EQ(record.facts.huge_pages, "madvise");
  EXPECT_EQ(record.facts.cpu, "A CPU");
  EXPECT_EQ(record.facts.ptrace_scope, 1);
  EXPECT_GT(record.facts.memory, 0);
}

TEST(Rates, Forms) {
  EXPECT_EQ(parse_rate("100mbit"), 12.5e6);
  EXPECT_EQ(parse_rate("1Gbit"), 125e6);
  EXPECT_EQ(parse_rate("2.5gbit"), 312.5e6);
  EXPECT_EQ(parse_rate("800bit"), 100.0);
  EXPECT_EQ(parse_rate("8kbit"), 1000.0);
  EXPECT_EQ(parse_rate("1tbit"), 125e9);
  for (const char* bad : {"", "100", "mbit", "-1mbit", "0mbit", "100mbps", "100 mbit", "1e999gbit", "nanbit",
                          "infbit", "100mbitx"}) {
    EXPECT_FALSE(parse_rate(bad).has_value()) << bad;
  }
}

TEST(Rates, Applied) {
  std::vector<Nic> nics = {{"nic0", 0, {}, {}, {}, {}, -1}, {"nic1", 0, 7.0, {}, {}, {}, -1}};
  std::vector<std::string> notes;
  apply_rates("nic0=100mbit", nics, notes);
  EXPECT_EQ(nics[0].bandwidth, 12.5e6);
  EXPECT_EQ(nics[1].bandwidth, 7.0);
  apply_rates("1gbit", nics, notes);
  EXPECT_EQ(nics[1].bandwidth, 125e6);
  EXPECT_THAT(notes, IsEmpty());
  apply_rates("fast", nics, notes);
  apply_rates("nic0=1gbit,nic7=1gbit,nic1=x", nics, notes);
  EXPECT_THAT(
      notes,
      ElementsAre("TAPA_NIC_RATE=fast: rate \"fast\", expected a number with bit, kbit, mbit, gbit or tbit",
                  "TAPA_NIC_RATE=nic0=1gbit,nic7=1gbit,nic1=x: there is no rail \"nic7\"",
                  "TAPA_NIC_RATE=nic0=1gbit,nic7=1gbit,nic1=x: rate \"x\", expected a number with bit, kbit, "
                  "mbit, gbit or tbit"));
}

TEST(Host, ThisOne) {
  Record record;
  identify_host("/proc", record);
  EXPECT_FALSE(record.host.empty());
  EXPECT_FALSE(record.kernel.empty());
  EXPECT_GT(record.node.size(), record.kernel.size() + 20);  // and three namespaces
}

TEST(Host, RackIsTheLeafSwitch) {
  EXPECT_EQ(rack_from_slurm("spine1.leaf7.node12", "switch.switch.node"), "leaf7");
  EXPECT_EQ(rack_from_slurm("node12", "node"), "");
  EXPECT_EQ(rack_from_slurm("", ""), "");
}

TEST(Host, CpuLists) {
  EXPECT_EQ(cpu_list({}), "");
  EXPECT_EQ(cpu_list({3}), "3");
  EXPECT_EQ(cpu_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(Libfabric, ReportsWhatItFound) {
  std::vector<Interface> interfaces;
  const SourceReport report = add_libfabric(interfaces);
  EXPECT_EQ(report.name, "libfabric");
  EXPECT_FALSE(report.detail.empty());
}

}  // namespace
}  // namespace tapa
