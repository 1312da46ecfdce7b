// Shared-memory messages: ranks of one node as objects of one process, and as two real processes that sleep.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "transport/shm_node.hpp"
#include "transport/transport.hpp"

namespace tapa {
namespace {

std::vector<std::byte> pattern(int seed, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((static_cast<std::size_t>(seed) * 37 + i * 11) & 0xFF);
  return data;
}

/// A message that is one piece; the list lives as long as the program.
Pieces whole(std::vector<std::byte>& data) {
  static std::deque<Piece> lists;
  return {&lists.emplace_back(data), 1};
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Ranks of one node that have not agreed yet. What is missing at the end could not be connected, for `why`.
std::vector<std::unique_ptr<ShmNode>> connect_nodes(int count, std::string& why, std::size_t page) {
  std::vector<ShmSegment> segments;
  std::vector<std::string> tokens;
  for (int r = 0; r < count; ++r) {
    auto segment = ShmSegment::create(why);
    EXPECT_TRUE(segment) << why;
    tokens.push_back(segment->token());
    segments.push_back(std::move(*segment));
  }
  std::vector<std::unique_ptr<ShmNode>> nodes;
  for (int r = 0; r < count; ++r) {
    auto node = ShmNode::connect(std::move(segments[static_cast<std::size_t>(r)]), r, count,
                                 first_ranks(count), tokens, why, page);
    if (!node) break;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// `count` ranks of one node.
std::vector<std::unique_ptr<ShmNode>> make_nodes(int count, std::size_t page = page_bytes()) {
  std::string why;
  auto nodes = connect_nodes(count, why, page);
  EXPECT_EQ(nodes.size(), static_cast<std::size_t>(count)) << why;
  for (auto& node : nodes) node->agreed(false, 0);
  return nodes;
}

/// Address space of the shared memory of this process, and in how many mappings.
struct Mapped {
  int mappings = 0;
  std::size_t bytes = 0;
};

Mapped mapped() {
  std::ifstream maps("/proc/self/maps");
  Mapped sum;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:tapa ") == line.npos) continue;
    std::size_t end_at = 0;
    const std::size_t begin = std::stoull(line, &end_at, 16);
    sum.bytes += std::stoull(line.substr(end_at + 1), nullptr, 16) - begin;
    ++sum.mappings;
  }
  return sum;
}

/// One round over a channel of two ranks: each sees what the other has written.
void expect_exchange(ShmBuffers& a, ShmBuffers& b) {
  for (ShmBuffers* own : {&a, &b}) {
    own->buffer(own->self(), own->round() + 1)->bytes = 100 + own->self();
    own->publish();
  }
  EXPECT_EQ(a.buffer(1, a.round())->sequence, a.round());
  EXPECT_EQ(a.buffer(1, a.round())->bytes, 101U);
  EXPECT_EQ(b.buffer(0, b.round())->sequence, b.round());
  EXPECT_EQ(b.buffer(0, b.round())->bytes, 100U);
}

TEST(SegmentLayout, PartsDoNotOverlapWhateverThePages) {
  for (const std::size_t page : {std::size_t{4096}, std::size_t{65536}}) {
    for (const std::size_t members : {1U, 2U, 8U, 61U}) {
      const SegmentLayout layout{members, 8192, ShmBuffers::region_bytes(), 32, page};
      const std::size_t last = members - 1;
      EXPECT_GE(layout.ring(0), sizeof(std::uint64_t)) << "the number";
      EXPECT_GE(layout.ring(1), layout.ring(0) + ShmRing::bytes_for(8192));
      EXPECT_GE(layout.doorbell(), layout.ring(last) + ShmRing::bytes_for(8192));
      EXPECT_EQ(layout.doorbell() % alignof(Doorbell), 0U);
      EXPECT_EQ(layout.ring(last) % alignof(RingHeader), 0U);
      EXPECT_GE(layout.channel(0), layout.doorbell() + sizeof(Doorbell));
      EXPECT_EQ(layout.channel(0) % page, 0U);
      EXPECT_EQ(layout.channel(31) % page, 0U);
      EXPECT_GE(layout.channel(1), layout.channel(0) + ShmBuffers::region_bytes());
      EXPECT_EQ(layout.file_bytes(), layout.channel(32));
      EXPECT_EQ(layout.view_begin(last) % page, 0U);
      EXPECT_LE(layout.view_begin(last), layout.ring(last));
      EXPECT_EQ(layout.view_end(), layout.channel(1));
    }
  }
}

// Kernels make a second mapping of a shared one; QEMU's user mode does not.
bool maps_again() {
  const std::size_t page = page_bytes();
  void* const once = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void* const again = mremap(once, 0, page, MREMAP_MAYMOVE);
  munmap(once, page);
  if (again != MAP_FAILED) munmap(again, page);
  return again != MAP_FAILED;
}

TEST(ShmNode, HoldsOneMappingForEachMemberAndNothingForChannelsThatNobodyUses) {
  if (!maps_again()) GTEST_SKIP() << "no second mapping of what is shared (QEMU)";
  const auto nodes = make_nodes(8);
  const Mapped before = mapped();
  EXPECT_LE(before.mappings, 8 * 8);
  EXPECT_LE(before.bytes / 8, std::size_t{10} << 20);
  for (const auto& node : nodes) ASSERT_TRUE(node->prepare_channel(3));
  EXPECT_LE(mapped().mappings, 3 * 8 * 8);
}

TEST(ShmNode, ChannelsAreThereWhenTheyWerePrepared) {
  if (!maps_again()) GTEST_SKIP() << "no second mapping of what is shared (QEMU)";
  for (const std::size_t page : {page_bytes(), std::size_t{65536}}) {
    const auto nodes = make_nodes(2, page);
    EXPECT_EQ(nodes[0]->buffers(1), nullptr);
    for (std::size_t channel = 0; channel < ShmNode::kChannels; ++channel) {
      for (const auto& node : nodes) ASSERT_TRUE(node->prepare_channel(channel));
      expect_exchange(*nodes[0]->buffers(channel), *nodes[1]->buffers(channel));
    }
    EXPECT_EQ(nodes[0]->buffers(0)->round(), 1U) << "a channel of its own each";
    for (std::size_t channel = 0; channel < ShmNode::kChannels; ++channel)
      expect_exchange(*nodes[0]->buffers(channel), *nodes[1]->buffers(channel));
    EXPECT_FALSE(nodes[0]->prepare_channel(ShmNode::kChannels));
    EXPECT_EQ(nodes[0]->buffers(ShmNode::kChannels), nullptr);
  }
  EXPECT_EQ(mapped().mappings, 0);
}

TEST(ShmNode, ChannelsThatComeLaterAreToldWhatTheOthersWere) {
  if (!maps_again()) GTEST_SKIP() << "no second mapping of what is shared (QEMU)";
  const auto nodes = make_nodes(3);
  const std::vector<std::uint32_t> order{2, 1};
  nodes[0]->set_order(order);
  nodes[0]->tell_together(true);
  ASSERT_TRUE(nodes[0]->prepare_channel(5));
  EXPECT_EQ(nodes[0]->buffers(5)->order(), order);
  EXPECT_TRUE(nodes[0]->buffers(5)->tells_together());
}

// What the whole process holds is limited, and the program gets the rest.
TEST(ShmNode, AProcessHoldsSoManyMappingsAndNoMore) {
  if (!maps_again()) GTEST_SKIP() << "no second mapping of what is shared (QEMU)";
  std::vector<std::vector<std::unique_ptr<ShmNode>>> pairs;
  std::string why;
  const std::size_t most = MapBudget::of_process().most_mappings();
  while (why.empty() && pairs.size() <= most) {
    pairs.push_back(connect_nodes(2, why, page_bytes()));
    for (auto& node : pairs.back()) node->agreed(false, 0);
  }
  EXPECT_NE(why.find("mappings, " + std::to_string(most) + " are its share"), why.npos) << why;
  EXPECT_LE(mapped().mappings, static_cast<int>(most));
  EXPECT_GT(4 * pairs.size() + 4, most);
  EXPECT_FALSE(pairs.front()[0]->prepare_channel(1)) << "what is there works, but does not grow";
  expect_exchange(*pairs.front()[0]->buffers(0), *pairs.front()[1]->buffers(0));
  pairs.resize(pairs.size() / 2);
  EXPECT_TRUE(pairs.front()[0]->prepare_channel(1));
  const auto again = make_nodes(2);
  expect_exchange(*again[0]->buffers(0), *again[1]->buffers(0));
}

TEST(MapBudget, RefusesWhatIsNotLeft) {
  MapBudget budget(10, 1000);
  std::string why;
  EXPECT_TRUE(budget.take(9, 1000, why));
  EXPECT_FALSE(budget.take(2, 0, why));
  EXPECT_EQ(
      why,
      "shared memory of this process would take 11 mappings, 10 are its share of what the system allows");
  EXPECT_FALSE(budget.take(0, 1, why));
  EXPECT_FALSE(budget.take(1, ~std::size_t{0}, why));
  budget.give(9, 1000);
  EXPECT_TRUE(budget.take(10, 1000, why));
}

void move_messages_of_all_sizes(std::size_t page) {
  auto nodes = make_nodes(2, page);
  const std::vector<std::size_t> sizes = {
      0, 1, 15, 16, 4096, ShmRing::kMaxCapacity, ShmRing::kMaxCapacity * 5 + 3, 7};
  std::vector<std::vector<std::byte>> sent, received;
  ShmNode::Completions sender, receiver;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sent.push_back(pattern(static_cast<int>(i), sizes[i]));
    received.emplace_back(sizes[i]);
    nodes[0]->send(1, static_cast<int>(i), whole(sent[i]), static_cast<int>(i), &sender);
  }
  nodes[1]->progress();  // before any receive is posted: everything is unexpected
  for (std::size_t i = sizes.size(); i-- > 0;)
    nodes[1]->recv(0, static_cast<int>(i), whole(received[i]), static_cast<int>(i), &receiver);
  for (int pass = 0; pass < 100; ++pass) {
    nodes[0]->progress();
    nodes[1]->progress();
  }
  EXPECT_EQ(sender.size(), sizes.size());
  EXPECT_EQ(receiver.size(), sizes.size());
  EXPECT_EQ(received, sent);
}

TEST(ShmNode, MovesMessagesOfAllSizesInAnyTagOrder) {
  for (const std::size_t page : {page_bytes(), std::size_t{65536}}) move_messages_of_all_sizes(page);
}

TEST(ShmNode, GathersAndScattersPieces) {
  auto nodes = make_nodes(2);
  const auto cut = [](std::vector<std::byte>& data, std::size_t step) {
    std::vector<Piece> pieces;
    for (std::size_t at = 0; at < data.size(); at += step)
      pieces.push_back(Piece(data).subspan(at, std::min(step, data.size() - at)));
    pieces.insert(pieces.begin() + 1, Piece());  // an empty one does no harm
    return pieces;
  };
  std::vector<std::byte> sent = pattern(1, 200'000), posted(sent.size()), late(sent.size());
  const auto from = cut(sent, 777), to = cut(posted, 1000), to_late = cut(late, 50'000);
  ShmNode::Completions s, r;
  nodes[1]->recv(0, 1, to, 1, &r);
  nodes[0]->send(1, 1, from, 1, &s);
  nodes[0]->send(1, 2, from, 2, &s);
  for (int pass = 0; pass < 100; ++pass) {  // the second one is unexpected
    nodes[0]->progress();
    nodes[1]->progress();
  }
  nodes[1]->recv(0, 2, to_late, 2, &r);
  EXPECT_EQ(s.size(), 2U);
  EXPECT_EQ(r.size(), 2U);
  EXPECT_EQ(posted, sent);
  EXPECT_EQ(late, sent);
}

TEST(ShmNode, KeepsOrderWithinATag) {
  auto nodes = make_nodes(2);
  ShmNode::Completions s, r;
  std::vector<std::vector<std::byte>> sent, received(5, std::vector<std::byte>(100));
  for (int i = 0; i < 5; ++i) {
    sent.push_back(pattern(i, 100));
    if (i % 2 == 0) nodes[1]->recv(0, 9, whole(received[static_cast<std::size_t>(i / 2)]), i, &r);
  }
  for (int i = 0; i < 5; ++i) nodes[0]->send(1, 9, whole(sent[static_cast<std::size_t>(i)]), i, &s);
  nodes[1]->progress();
  for (std::size_t i = 3; i < 5; ++i) nodes[1]->recv(0, 9, whole(received[i]), static_cast<int>(i), &r);
  nodes[1]->progress();
  EXPECT_EQ(r.size(), 5U);
  EXPECT_EQ(received, sent);
}

TEST(ShmNode, RandomTrafficBetweenFourRanks) {
  auto nodes = make_nodes(4);
  std::mt19937 random(3);
  struct Message {
    int from, to, tag;
    std::vector<std::byte> data, got;
  };
  std::vector<Message> messages;
  for (int i = 0; i < 400; ++i) {
    const int from = static_cast<int>(random() % 4);
    const int to = (from + 1 + static_cast<int>(random() % 3)) % 4;
    const std::size_t bytes = random() % 5 == 0 ? random() % 100000 : random() % 200;
    messages.push_back({from, to, i, pattern(i, bytes), std::vector<std::byte>(bytes)});
  }
  ShmNode::Completions done;
  std::vector<std::size_t> sends(messages.size()), recvs(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) sends[i] = recvs[i] = i;
  std::shuffle(sends.begin(), sends.end(), random);
  std::shuffle(recvs.begin(), recvs.end(), random);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Message& s = messages[sends[i]];
    Message& r = messages[recvs[i]];
    nodes[static_cast<std::size_t>(s.from)]->send(s.to, s.tag, whole(s.data), 0, &done);
    nodes[static_cast<std::size_t>(r.to)]->recv(r.from, r.tag, whole(r.got), 0, &done);
    nodes[random() % 4]->progress();
  }
  for (int pass = 0; pass < 2000 && done.size() < 2 * messages.size(); ++pass) {
    for (auto& n : nodes) n->progress();
  }
  EXPECT_EQ(done.size(), 2 * messages.size());
  for (const Message& m : messages) EXPECT_EQ(m.got, m.data);
}

TEST(ShmNode, LongerMessagesAreAnError) {
  auto nodes = make_nodes(2);
  ShmNode::Completions done;
  std::vector<std::byte> four(4), five(5);
  nodes[1]->recv(0, 1, whole(four), 0, &done);
  nodes[0]->send(1, 1, whole(five), 0, &done);
  try {
    nodes[1]->progress();
    FAIL() << "accepted";
  } catch (const TransportError& e) {
    EXPECT_STREQ(e.what(), "message from rank 0 has 5 bytes, expected at most 4");
    EXPECT_TRUE(e.truncated());
  }
}

TEST(ShmNode, ShorterMessagesEndWhereTheNextBegins) {
  for (const bool early : {false, true}) {
    auto nodes = make_nodes(2);
    ShmNode::Completions done;
    std::vector<std::byte> first = pattern(1, 40), second = pattern(2, 60);
    std::vector<std::byte> got_first(60), got_second(60);
    const auto post = [&] {
      nodes[1]->recv(0, 1, whole(got_first), 0, &done);
      nodes[1]->recv(0, 2, whole(got_second), 1, &done);
    };
    if (!early) post();
    nodes[0]->send(1, 1, whole(first), 2, &done);
    nodes[0]->send(1, 2, whole(second), 3, &done);
    nodes[1]->progress();
    if (early) post();
    EXPECT_EQ(done.size(), 4U);
    EXPECT_EQ(std::vector(got_first.begin(), got_first.begin() + 40), first);
    EXPECT_EQ(got_first[40], std::byte{0});
    EXPECT_EQ(got_second, second);
  }
}

TEST(ShmNode, WakesASleeper) {
  auto nodes = make_nodes(2);
  ShmNode::Completions sender, receiver;
  std::vector<std::byte> data = pattern(1, 64), got(64);
  nodes[1]->recv(0, 1, whole(got), 0, &receiver);
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    nodes[0]->send(1, 1, whole(data), 0, &sender);
  });
  while (receiver.empty()) {
    nodes[1]->sleep(10'000'000, [&] { return nodes[1]->progress(); });
    nodes[1]->progress();
  }
  other.join();
  EXPECT_EQ(got, data);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// A sleeper is not rung for what came before it lay down.
TEST(ShmNode, WhatAnotherUserReceivedForASleeperKeepsItAwake) {
  auto nodes = make_nodes(2);
  ShmNode::Completions sender, receiver, other;
  std::vector<std::byte> data = pattern(1, 64), got(64);
  nodes[1]->recv(0, 1, whole(got), 0, &receiver);
  nodes[0]->send(1, 1, whole(data), 0, &sender);
  nodes[1]->progress();
  EXPECT_FALSE(nodes[1]->progress_for(other)) << "nothing moves any more";
  EXPECT_TRUE(nodes[1]->progress_for(receiver));
}

TEST(ShmNode, TwoProcessesExchangeMoreThanTheRingsHold) {
  std::string why;
  auto a = ShmSegment::create(why);
  auto b = ShmSegment::create(why);
  ASSERT_TRUE(a && b) << why;
  const std::vector<std::string> tokens = {a->token(), b->token()};
  auto* const connected = static_cast<std::atomic<int>*>(
      mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto exchange = [&](int rank, ShmSegment segment) {
    auto node = ShmNode::connect(std::move(segment), rank, 2, {0, 1}, tokens, why);
    for (++*connected; *connected < 2;) std::this_thread::yield();  // so they agree
    if (!node) return false;
    node->agreed(false, 0);
    ShmNode::Completions done;
    auto mine = pattern(rank, 1'000'000);
    const auto expected = pattern(1 - rank, 1'000'000);
    std::vector<std::byte> got(mine.size());
    for (int round = 0; round < 20; ++round) {
      std::fill(got.begin(), got.end(), std::byte{0});
      done.clear();
      node->recv(1 - rank, round, whole(got), 0, &done);
      node->send(1 - rank, round, whole(mine), 1, &done);
      while (done.size() < 2) {
        if (!node->progress()) node->sleep(100'000, [&] { return node->progress(); });
      }
      if (got != expected) return false;
    }
    return true;
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(exchange(1, std::move(*b)) ? 0 : 1);
  EXPECT_TRUE(exchange(0, std::move(*a)));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  munmap(connected, page_bytes());
}

// Under vm.memfd_noexec=2 kernels refuse others.
TEST(MemoryFile, NobodyCanExecuteIt) {
  constexpr unsigned no_exec = 0x8;  // MFD_NOEXEC_SEAL, since Linux 6.3
  const int known = memfd_create("known", no_exec);
  if (known < 0) GTEST_SKIP() << "this kernel does not know such files";
  close(known);
  std::string why;
  const int fd = open_memory_file("test", 1, why);
  ASSERT_GE(fd, 0) << why;
  struct stat status {};
  EXPECT_EQ(fstat(fd, &status), 0);
  EXPECT_EQ(status.st_mode & 0111U, 0U);
  EXPECT_EQ(status.st_size, 1);
  close(fd);
}

// The kernel would end the process with SIGXFSZ.
TEST(ShmNode, StepsAsideWhereFilesMayNotBeLong) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::string why, later;
    const bool short_is_there = ShmSegment::create(why).has_value();
    rlimit limit{1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto nodes = connect_nodes(2, why, page_bytes());
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_FSIZE, &limit);
    const bool refused = nodes.empty() && !ShmSegment::create(later);
    const auto told = [](const std::string& text) { return text.find("(ulimit -f)") != text.npos; };
    _exit(short_is_there && refused && told(why) && told(later) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ShmSegment, TokensOfNobodyAreRefused) {
  EXPECT_EQ(ShmSegment::open_token(""), -1);
  EXPECT_EQ(ShmSegment::open_token("12"), -1);
  EXPECT_EQ(ShmSegment::open_token("x:1"), -1);
  EXPECT_EQ(ShmSegment::open_token("1:-1"), -1);
  EXPECT_EQ(ShmSegment::open_token("12:3"), -1);
  EXPECT_EQ(ShmSegment::open_token("12:3:4"), -1);
  EXPECT_EQ(ShmSegment::open_token("12:3:4:5:6"), -1);
  EXPECT_EQ(ShmSegment::open_token("999999999:3:1:0"), -1);
  // The right process and file, but another number: a rank of another host with the same pid.
  std::string why;
  const auto segment = ShmSegment::create(why);
  ASSERT_TRUE(segment) << why;
  std::string other = segment->token();
  other.insert(other.rfind(':'), "0");
  EXPECT_EQ(ShmSegment::open_token(other), -1);
  EXPECT_FALSE(ShmSegment::readable(other));
  const int fd = ShmSegment::open_token(segment->token());
  EXPECT_GE(fd, 0);
  close(fd);
}

TEST(ShmNode, AUserThatGivesUpLeavesTheOthersAlone) {
  auto nodes = make_nodes(2);
  ShmNode::Completions sender, gone, receiver;
  auto first = pattern(1, 100000), second = pattern(2, 50);
  std::vector<std::byte> lost(first.size()), got(second.size());
  nodes[1]->recv(0, 1, whole(lost), 0, &gone);
  nodes[0]->send(1, 1, whole(first), 0, &sender);  // more than the ring holds
  nodes[1]->progress();
  nodes[1]->forget(&gone);
  nodes[0]->send(1, 2, whole(second), 1, &sender);
  nodes[1]->recv(0, 2, whole(got), 7, &receiver);
  for (int pass = 0; pass < 20; ++pass) {
    nodes[0]->progress();
    nodes[1]->progress();
  }
  EXPECT_TRUE(gone.empty());
  EXPECT_EQ(receiver, std::vector<int>{7});
  EXPECT_EQ(got, second);
}

}  // namespace
}  // namespace tapa
