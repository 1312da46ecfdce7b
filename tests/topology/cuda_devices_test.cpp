// CUDA's devices 0, 1, ... by CUDA_VISIBLE_DEVICES: each form, every list of a few entries, and the driver of
// this machine, where there is one.
#include "topology/cuda_devices.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "topology/current_cuda_gpu.hpp"
#include "topology/gpu_links.hpp"
#include "topology/nvml_source.hpp"

namespace tapa {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using List = std::vector<std::string>;

/// Four of one model. Two UUIDs begin alike.
std::vector<CudaGpu> four() {
  return {{"0000:18:00.0", "NVIDIA H200", "GPU-8f3c0000-1111", false, {}},
          {"0000:2a:00.0", "NVIDIA H200", "GPU-8f3d0000-2222", false, {}},
          {"0000:3a:00.0", "NVIDIA H200", "GPU-0c000000-3333", false, {}},
          {"0000:9b:00.0", "NVIDIA H200", "GPU-11110000-4444", false, {}}};
}

/// Places in four() of what a list shows, when that is all known; {-1} when it is not.
std::vector<int> shown(std::string_view list, std::string_view order = "",
                       const std::vector<CudaGpu>& gpus = four()) {
  const VisibleGpus visible = visible_gpus(gpus, list, order);
  if (!visible.unknown.empty()) return {-1};
  std::vector<int> places;
  for (const std::string& pci : visible.known) {
    const auto at = std::ranges::find(gpus, pci, &CudaGpu::pci);
    places.push_back(at == gpus.end() ? -2 : static_cast<int>(at - gpus.begin()));
  }
  return places;
}

TEST(VisibleGpus, Numbers) {
  EXPECT_THAT(shown("2"), ElementsAre(2));
  EXPECT_THAT(shown("1,0"), ElementsAre(1, 0));
  EXPECT_THAT(shown("3, 1 ,2"), ElementsAre(3, 1, 2));
  EXPECT_THAT(shown("0,1,2,3"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(shown(""), IsEmpty());
}

TEST(VisibleGpus, WhatStandsBehindAnEntryThatNamesNothingDoesNotCount) {
  EXPECT_THAT(shown("0,2,-1,1"), ElementsAre(0, 2));  // the example of CUDA's manual
  EXPECT_THAT(shown("4"), IsEmpty());
  EXPECT_THAT(shown("3,4,1"), ElementsAre(3));
  EXPECT_THAT(shown("-1"), IsEmpty());
  EXPECT_THAT(shown("NoDevFiles"), IsEmpty());
  EXPECT_THAT(shown("1,none"), ElementsAre(1));
  EXPECT_THAT(shown("1,"), ElementsAre(1));
  EXPECT_THAT(shown("99999999999999999999"), IsEmpty());
  EXPECT_THAT(shown("GPU-8f3c0000-1111,GPU-ffff,GPU-0c"), ElementsAre(0));
}

TEST(VisibleGpus, Uuids) {
  EXPECT_THAT(shown("GPU-0c000000-3333"), ElementsAre(2));
  EXPECT_THAT(shown("GPU-8f3c"), ElementsAre(0));
  EXPECT_THAT(shown("GPU-1,GPU-8f3d,GPU-0"), ElementsAre(3, 1, 2));
  EXPECT_THAT(shown("GPU-0c000000-33334"), IsEmpty());  // longer than any
  // The order of numbers does not matter to them.
  auto gpus = four();
  gpus[0].model = "NVIDIA A2";
  EXPECT_THAT(shown("GPU-8f3d,GPU-8f3c", "FASTEST_FIRST", gpus), ElementsAre(1, 0));
}

TEST(VisibleGpus, NumbersGoByPciAddress) {
  auto gpus = four();
  std::ranges::reverse(gpus);
  EXPECT_THAT(visible_gpus(gpus, "1", "").known, ElementsAre("0000:2a:00.0"));
  EXPECT_THAT(visible_gpus(gpus, "0,3", "PCI_BUS_ID").known, ElementsAre("0000:18:00.0", "0000:9b:00.0"));
}

TEST(VisibleGpus, FasterOnesFirstIsKnownOfOneModelAlone) {
  auto gpus = four();
  gpus[2].model = "NVIDIA DGX Display";
  EXPECT_THAT(shown("3,2", "PCI_BUS_ID", gpus), ElementsAre(3, 2));
  for (const char* const order : {"", "FASTEST_FIRST", "pci"}) {
    const VisibleGpus visible = visible_gpus(gpus, "3,2", order);
    EXPECT_THAT(visible.known, IsEmpty()) << order;
    EXPECT_THAT(visible.unknown, HasSubstr("CUDA_DEVICE_ORDER=PCI_BUS_ID")) << order;
    EXPECT_THAT(shown("7", order, gpus), IsEmpty()) << order;  // whatever the order
    EXPECT_THAT(shown("3,2", order), ElementsAre(3, 2)) << order;
  }
  for (CudaGpu& gpu : gpus) gpu.model.clear();
  EXPECT_THAT(shown("3,2", "", gpus), ElementsAre(-1));
  EXPECT_THAT(shown("0", "", {gpus[1]}), ElementsAre(0));  // there is one order of one
}

TEST(VisibleGpus, WhatCudaDoesNotTellIsNotGuessed) {
  const auto known = [](std::string_view list) { return visible_gpus(four(), list, "").known; };
  EXPECT_THAT(visible_gpus(four(), "0,0", "").unknown, HasSubstr("twice"));
  EXPECT_THAT(known("0,1,0"), IsEmpty());  // perhaps none is visible at all
  EXPECT_THAT(visible_gpus(four(), "GPU-0c,GPU-0c00", "").unknown, HasSubstr("twice"));
  EXPECT_THAT(visible_gpus(four(), "2,GPU-0c", "").unknown, HasSubstr("mixture"));
  for (const char* mixture : {"2,GPU-8f3c", "GPU-8f3c,2", "GPU-8f3c,MIG-1"})
    EXPECT_THAT(known(mixture), IsEmpty()) << "newer drivers show none: " << mixture;
  for (const char* const list :
       {"GPU-8f3", "GPU-", "01", "1x", "0x1", "1;2", "+1", ",1", "gpu-0c", "GPU-0C", " GPU-0c", "GPU-0c "})
    EXPECT_THAT(shown(list), ElementsAre(-1)) << list;
  EXPECT_THAT(known("3,,1"), ElementsAre("0000:9b:00.0"));
  EXPECT_NE(visible_gpus(four(), "3,,1", "").unknown, "");
  // Without UUIDs of all, one that is not found may still be there.
  auto gpus = four();
  gpus[3].uuid.clear();
  EXPECT_THAT(shown("GPU-8f3c0000-1111", "", gpus), ElementsAre(0));
  EXPECT_THAT(shown("GPU-8f3c", "", gpus), ElementsAre(-1));
  EXPECT_THAT(shown("GPU-1", "", gpus), ElementsAre(-1));
  EXPECT_THAT(shown("0", "", {}), ElementsAre(-1));  // nothing is known of any
}

TEST(VisibleGpus, PartsOfAGpu) {
  auto gpus = four();
  gpus[1].divided = true;
  gpus[1].parts = {"MIG-aaaa0000-1", "MIG-aaaa0000-2"};
  EXPECT_THAT(shown("MIG-aaaa0000-2", "", gpus), ElementsAre(1));
  EXPECT_THAT(shown("MIG-GPU-8f3d0000-2222/7/0", "", gpus), ElementsAre(1));  // of older drivers
  EXPECT_THAT(shown("MIG-bbbb", "", gpus), ElementsAre(-1));
  EXPECT_THAT(shown("MIG-aaaa0000", "", gpus), ElementsAre(-1));
  EXPECT_THAT(shown("MIG-GPU-ffff/7/0", "", gpus), ElementsAre(-1));
  EXPECT_THAT(shown("MIG-GPU-8f3d0000-2222", "", gpus), ElementsAre(-1));
  EXPECT_THAT(shown("MIG-GPU-8f3c0000-1111/7/0", "", gpus), ElementsAre(-1));  // that one is whole
  EXPECT_THAT(visible_gpus(gpus, "MIG-aaaa0000-1,MIG-aaaa0000-2", "").known, ElementsAre("0000:2a:00.0"));
  EXPECT_THAT(shown("MIG-aaaa0000-1,MIG-aaaa0000-2", "", gpus), ElementsAre(-1));
  // Beside a GPU in parts numbers mean something else; a whole one can be named.
  EXPECT_THAT(visible_gpus(gpus, "0", "PCI_BUS_ID").unknown, HasSubstr("MIG"));
  EXPECT_THAT(visible_gpus(gpus, "GPU-8f3d", "").unknown, HasSubstr("MIG"));
  EXPECT_THAT(shown("GPU-8f3c,GPU-0c", "", gpus), ElementsAre(0, 2));
}

/// Entries and what they name in four(): -1 nothing, -2 it is not known what.
const std::map<std::string, int>& numbers() {
  static const std::map<std::string, int> all{{"0", 0},  {"1", 1},   {"2", 2},  {"3", 3},
                                              {"4", -1}, {"-1", -1}, {"x", -1}, {"1x", -2}};
  return all;
}
const std::map<std::string, int>& uuids() {
  static const std::map<std::string, int> all{
      {"GPU-8f3c0000-1111", 0}, {"GPU-8f3c", 0}, {"GPU-8f3d", 1}, {"GPU-0", 2},
      {"GPU-1111", 3},          {"GPU-8f", -2},  {"GPU-2", -1}};
  return all;
}

/// Every list of up to five entries of a kind against the rule in one sentence: what comes before the first
/// entry that names nothing is shown, in its order.
TEST(VisibleGpus, EveryList) {
  int lists = 0;
  for (const auto* entries : {&numbers(), &uuids()}) {
    const std::function<void(const std::string&, std::vector<int>)> go_on = [&](const std::string& list,
                                                                                std::vector<int> named) {
      if (!named.empty()) {
        ++lists;
        std::vector<int> expected(named.begin(), std::ranges::find_if(named, [](int n) { return n < 0; }));
        const bool ends_unknown = expected.size() < named.size() && named[expected.size()] == -2;
        const bool twice = std::set<int>(expected.begin(), expected.end()).size() < expected.size();
        if (twice || ends_unknown) expected = {-1};
        ASSERT_EQ(shown(list), expected) << list;
      }
      if (named.size() == 5) return;
      for (const auto& [text, place] : *entries) {
        std::vector<int> more = named;
        more.push_back(place);
        go_on(list + (list.empty() ? "" : ",") + text, more);
      }
    };
    go_on("", {});
  }
  EXPECT_GT(lists, 50000);
}

/// What is not asked for could not have been told, but of entries that no GPU has.
TEST(VisibleGpus, AreNotAskedForWhereTheListNamesNoneOrSeveral) {
  for (const char* const list :
       {"0", " 3", "12", "0,", "2,-1,4", "1,none", "1, x,0", "GPU-8f3c", "MIG-1", "GPU-0,"})
    EXPECT_TRUE(may_show_one(list)) << list;
  for (const char* const list : {"",
                                 " ",
                                 ",",
                                 ",1",
                                 "-1",
                                 "-1,0",
                                 "none",
                                 "NoDevFiles",
                                 "+1",
                                 "gpu-0c",
                                 " GPU-0c",
                                 "GPU-0C",
                                 "0,1",
                                 "0,7,-1",
                                 "0, 1",
                                 "0,+1",
                                 "0,,1",
                                 "0, ",
                                 "0,GPU-0c",
                                 "0,gpu-0c",
                                 "GPU-8f3c,GPU-0",
                                 "GPU-8f3c,-1",
                                 "MIG-1,MIG-2"})
    EXPECT_FALSE(may_show_one(list)) << list;
  std::vector<std::string> entries{"", " ", "+1", "GPU-", "gpu-0c", "MIG-1", "GPU-0C"};
  for (const auto* all : {&numbers(), &uuids()}) {
    for (const auto& [text, place] : *all) {
      if (text != "4" && text != "GPU-2") entries.push_back(text);
    }
  }
  for (const std::string& first : entries) {
    EXPECT_TRUE(may_show_one(first) || shown(first).size() != 1 || shown(first)[0] < 0) << first;
    for (const std::string& second : entries) {
      for (const char* const rest : {"", ",", ",-1", ",3", ",GPU-1111"}) {
        const std::string list = first + "," + second + rest;
        const std::vector<int> places = shown(list);
        EXPECT_TRUE(may_show_one(list) || places.size() != 1 || places[0] < 0) << list;
      }
    }
  }
}

/// FAKE_NVML is its file.
TEST(NvmlNames, AreAskedFor) {
  std::string why;
  const std::vector<CudaGpu> gpus = cuda_gpus(why, std::getenv("FAKE_NVML"));
  ASSERT_EQ(gpus.size(), 4U) << why;
  EXPECT_EQ(gpus[1].pci, "0000:1b:00.0");
  EXPECT_EQ(gpus[1].model, "NVIDIA Test 1");
  EXPECT_EQ(gpus[1].uuid, "GPU-10000000-0000");
  EXPECT_FALSE(gpus[1].divided);
  EXPECT_TRUE(gpus[3].divided);
  EXPECT_THAT(gpus[3].parts, ElementsAre("MIG-30000000-0000", "MIG-30000000-0002"));
  EXPECT_THAT(visible_gpus(gpus, "MIG-30000000-0002", "").known, ElementsAre("0000:1d:00.0"));
  EXPECT_THAT(visible_gpus(gpus, "GPU-2,GPU-1", "").known, ElementsAre("0000:1c:00.0", "0000:1b:00.0"));
  EXPECT_TRUE(cuda_gpus(why, "libnothing-of-this-name.so").empty());
  EXPECT_EQ(why, "libnothing-of-this-name.so is not there");
}

/// The driver is asked when the process has it and uses a device: FAKE_NVML has its functions, too.
TEST(CurrentGpu, IsTheOneOfTheThreadsContext) {
  const char* const file = std::getenv("FAKE_NVML");
  EXPECT_EQ(current_cuda_gpu("libnothing-of-this-name.so"), "");
  EXPECT_FALSE(has_loaded_cuda("libBrokenLocale.so.1"));  // one of glibc's that nothing loads
  void* const library = dlopen(file, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  EXPECT_TRUE(has_loaded_cuda(file));
  EXPECT_EQ(current_cuda_gpu(file), "");  // no context
  ::setenv("FAKE_CUDA_DEVICE", "2", 1);
  EXPECT_EQ(current_cuda_gpu(file), "0000:1c:00.0");
  ::unsetenv("FAKE_CUDA_DEVICE");
  dlclose(library);
}

/// PCI addresses of the devices that CUDA shows with that list, of a process of its own; "none" in their
/// place where CUDA does not start. `order`: "" where the variable is not set, as CUDA takes no empty one.
List asked_of_cuda(const std::string& list, const char* order) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    ::setenv("CUDA_VISIBLE_DEVICES", list.c_str(), 1);
    ::unsetenv("CUDA_DEVICE_ORDER");
    if (*order != '\0') ::setenv("CUDA_DEVICE_ORDER", order, 1);
    std::string text = "none";
    void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int count = 0;
    if (reinterpret_cast<int (*)(unsigned)>(dlsym(cuda, "cuInit"))(0) == 0) {
      reinterpret_cast<int (*)(int*)>(dlsym(cuda, "cuDeviceGetCount"))(&count);
      text.clear();
    }
    for (int device = 0; device < count; ++device) {
      std::array<char, 32> pci{};
      reinterpret_cast<int (*)(char*, int, int)>(dlsym(cuda, "cuDeviceGetPCIBusId"))(pci.data(), 32, device);
      text += short_pci(pci.data()) + "\n";
    }
    _exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  close(ends[0]);
  TEMP_FAILURE_RETRY(waitpid(child, nullptr, 0));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  List devices;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    devices.push_back(text.substr(at, text.find('\n', at) - at));
    if (text.find('\n', at) == std::string::npos) break;
  }
  return devices;
}

/// Prints what CUDA does with lists of which it is not told, too.
TEST(VisibleGpus, AgreeWithTheDriver) {
  std::string why;
  const std::vector<CudaGpu> gpus = cuda_gpus(why);
  void* const cuda = dlopen("libcuda.so.1", RTLD_LAZY);
  if (gpus.empty() || cuda == nullptr) GTEST_SKIP() << "no GPU, or no CUDA: " << why;
  const std::string first = gpus.front().uuid;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const List found = asked_of_cuda(first, "");  // nothing: the process that asks has ended before
  if (found.empty() || found == List{"none"}) GTEST_SKIP() << "CUDA does not start in a sanitized process";
#endif
  const std::string last = gpus.back().uuid;
  const List lists{"0", "1", "1,0", "0,1", "0,1,-1", "-1", "0,-1,1", "1,99,0", "99", "NoDevFiles", "0,",
                   "0, 1", first, last + "," + first, last.substr(0, 14), last.substr(0, 14) + "," + first,
                   "GPU-zz," + first, first + ",GPU-zz," + last,
                   // not told
                   "0,0", first + "," + first, "0," + last, last + ",0", "01", "1x", "0,,1", ",1", "+1",
                   "GPU-"};
  for (const std::string& list : lists) {
    for (const char* const order : {"", "FASTEST_FIRST", "PCI_BUS_ID"}) {
      const VisibleGpus ours = visible_gpus(gpus, list, order);
      List theirs = asked_of_cuda(list, order);
      std::printf("  %-30.30s %-13s %zu known%s%s; CUDA:", list.c_str(), order, ours.known.size(),
                  ours.unknown.empty() ? "" : ", ", ours.unknown.c_str());
      for (const std::string& pci : theirs) std::printf(" %s", pci.c_str());
      std::printf("\n");
      if (theirs == List{"none"}) theirs.clear();
      if (ours.unknown.empty()) {
        EXPECT_EQ(ours.known, theirs) << list << " " << order;
      } else {
        ASSERT_LE(ours.known.size(), theirs.size()) << list << " " << order;
        EXPECT_TRUE(std::equal(ours.known.begin(), ours.known.end(), theirs.begin())) << list << " " << order;
      }
    }
  }
}

}  // namespace
}  // namespace tapa
