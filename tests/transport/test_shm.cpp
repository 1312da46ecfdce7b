// Shared-memory messages: ranks of one node as objects of one process, and as two real processes that sleep.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/shm_node.hpp"
#include "transport/transport.hpp"
#include "world/node_arena.hpp"

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

/// Maps a file for one rank, beside files for its units, which nobody uses; null, for `why`, when that is not
/// possible.
std::shared_ptr<NodeArena> map_arena(const ShmSegment& file, std::size_t ranks, std::string& why,
                                     std::size_t page = page_bytes()) {
  const auto open = [&](std::size_t number) {
    return files::Descriptor(number == 0 ? dup(file.fd()) : open_memory_file("tapa", page, why));
  };
  return NodeArena::map(open, {ranks, 2 * ranks, page}, why);
}

/// One rank's end of the rings.
struct Node {
  Node(std::shared_ptr<NodeArena> mapped, std::size_t own)
      : arena(std::move(mapped)), shm(ends(*arena, own), own, arena->bell(own)) {}

  static std::vector<RingEnds> ends(const NodeArena& arena, std::size_t own) {
    const std::size_t capacity = arena.layout().ring_capacity();
    std::vector<RingEnds> ends;
    for (std::size_t peer = 0; peer < arena.layout().ranks; ++peer) {
      ends.push_back({ShmRing(arena.ring(own, peer), capacity), ShmRing(arena.ring(peer, own), capacity),
                      arena.bell(peer)});
    }
    return ends;
  }

  std::shared_ptr<NodeArena> arena;
  ShmNode shm;
};

std::shared_ptr<ShmNode> make_node(std::shared_ptr<NodeArena> arena, std::size_t own) {
  const auto node = std::make_shared<Node>(std::move(arena), own);
  return {node, &node->shm};
}

/// `count` ranks of one node, which map its file once each.
std::vector<std::shared_ptr<ShmNode>> make_nodes(std::size_t count, std::size_t page = page_bytes()) {
  std::string why;
  const auto file = ShmSegment::create(why);
  EXPECT_TRUE(file) << why;
  std::vector<std::shared_ptr<ShmNode>> nodes;
  for (std::size_t r = 0; r < count; ++r) {
    auto arena = map_arena(*file, count, why, page);
    EXPECT_NE(arena, nullptr) << why;
    nodes.push_back(make_node(std::move(arena), r));
  }
  return nodes;
}

/// In how many mappings this process has shared memory.
int mappings() {
  std::ifstream maps("/proc/self/maps");
  int sum = 0;
  for (std::string line; std::getline(maps, line);) sum += line.find("/memfd:tapa ") != line.npos ? 1 : 0;
  return sum;
}

/// Whether a message of rank 0 arrives at rank 1.
bool moves_a_message(ShmNode& from, ShmNode& to) {
  std::vector<std::byte> sent = pattern(1, 100), got(100);
  ShmNode::Completions done;
  to.recv(0, 1, whole(got), 0, &done);
  from.send(1, 1, whole(sent), 1, &done);
  to.progress();
  return done.size() == 2 && got == sent;
}

TEST(ShmNode, HoldsAFewMappingsHoweverManyPeersItHas) {
  constexpr std::size_t count = 20;
  const auto nodes = make_nodes(count);
  EXPECT_EQ(mappings(), static_cast<int>(count * ArenaLayout::kMostFiles));
}

// What the whole process holds is limited, and the program gets the rest.
TEST(ShmNode, AProcessHoldsSoManyMappingsAndNoMore) {
  std::vector<std::shared_ptr<ShmNode>> nodes;
  std::string why;
  const std::size_t most = MapBudget::of_process().most_mappings();
  if (most > 100'000) GTEST_SKIP() << "the limit of addresses comes first";
  while (why.empty() && nodes.size() <= most) {
    const auto file = ShmSegment::create(why);
    ASSERT_TRUE(file) << why;
    for (std::size_t r = 0; r < 2 && why.empty(); ++r) {
      if (auto arena = map_arena(*file, 2, why)) nodes.push_back(make_node(std::move(arena), r));
    }
  }
  EXPECT_NE(why.find("mappings, " + std::to_string(most) + " are its share"), why.npos) << why;
  EXPECT_EQ(nodes.size(), most / 2) << "each has two files";
  EXPECT_LE(mappings(), static_cast<int>(most));
  EXPECT_TRUE(moves_a_message(*nodes[0], *nodes[1])) << "what is there works";
  nodes.resize(nodes.size() / 2);
  const auto again = make_nodes(2);
  EXPECT_TRUE(moves_a_message(*again[0], *again[1]));
}

// With many ranks rings are shorter.
TEST(ShmNode, EachPairHasRingsOfItsOwn) {
  constexpr std::size_t ranks = 33;
  const auto nodes = make_nodes(ranks);
  constexpr std::size_t bytes = 10'000;
  ShmNode::Completions done;
  std::vector<std::vector<std::byte>> sent(ranks * ranks), got(ranks * ranks);
  for (std::size_t i = 0; i < ranks * ranks; ++i) {
    const std::size_t from = i / ranks, to = i % ranks;
    if (from == to) continue;
    sent[i] = pattern(static_cast<int>(i), bytes);
    got[i].resize(bytes);
    nodes[to]->recv(static_cast<int>(from), 1, whole(got[i]), 0, &done);
    nodes[from]->send(static_cast<int>(to), 1, whole(sent[i]), 0, &done);
  }
  for (int pass = 0; pass < 20; ++pass) {
    for (const auto& node : nodes) node->progress();
  }
  EXPECT_EQ(done.size(), 2 * ranks * (ranks - 1));
  EXPECT_EQ(got, sent);
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

TEST(ShmNode, WhatARankHasNoMemoryForHoldsUpNothing) {
  for (const bool early : {false, true}) {
    auto nodes = make_nodes(2);
    ShmNode::Completions done;
    std::vector<std::byte> sent = pattern(1, 5000), got(5000), next = pattern(2, 60), got_next(60);
    static Piece none = nothing(5000);
    const auto post = [&] {
      nodes[1]->recv(0, 1, whole(got), 0, &done);
      nodes[1]->recv(0, 2, {&none, 1}, 1, &done);
      nodes[1]->recv(0, 3, whole(got_next), 2, &done);
    };
    if (!early) post();
    nodes[0]->send(1, 1, {&none, 1}, 3, &done);
    nodes[0]->send(1, 2, whole(sent), 4, &done);
    nodes[0]->send(1, 3, whole(next), 5, &done);
    nodes[1]->progress();
    if (early) post();
    std::ranges::sort(done);
    EXPECT_EQ(done, (ShmNode::Completions{~0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(got, std::vector<std::byte>(5000));
    EXPECT_EQ(got_next, next);
  }
}

/// It comes in many parts, before its receive or behind it.
TEST(ShmNode, WhatARankHasNoMemoryForMayBeLongerThanTheRings) {
  for (const bool early : {false, true}) {
    auto nodes = make_nodes(2);
    ShmNode::Completions done;
    std::vector<std::byte> sent = pattern(1, 1'000'000), next = pattern(2, 60), got(60);
    static Piece none = nothing(sent.size());
    const auto post = [&] {
      nodes[1]->recv(0, 1, {&none, 1}, 0, &done);
      nodes[1]->recv(0, 2, whole(got), 1, &done);
    };
    if (!early) post();
    nodes[0]->send(1, 1, whole(sent), 2, &done);
    nodes[0]->send(1, 2, whole(next), 3, &done);
    nodes[1]->progress();
    if (early) post();
    for (int look = 0; look < 1000 && done.size() < 4; ++look) {
      for (const auto& node : nodes) node->progress();
    }
    std::ranges::sort(done);
    EXPECT_EQ(done, (ShmNode::Completions{0, 1, 2, 3}));
    EXPECT_EQ(got, next);
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
  const auto file = ShmSegment::create(why);
  ASSERT_TRUE(file) << why;
  const auto exchange = [&](int rank) {
    auto arena = map_arena(*file, 2, why);
    if (!arena) return false;
    const auto node = make_node(std::move(arena), static_cast<std::size_t>(rank));
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
  if (child == 0) _exit(exchange(1) ? 0 : 1);
  EXPECT_TRUE(exchange(0));
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  EXPECT_EQ(status, 0);
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
    const auto file = ShmSegment::create(why);
    rlimit limit{1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    const bool too_long = file && !map_arena(*file, 2, why);
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_FSIZE, &limit);
    const bool refused = too_long && !ShmSegment::create(later);
    const auto told = [](const std::string& text) { return text.find("(ulimit -f)") != text.npos; };
    _exit(refused && told(why) && told(later) ? 0 : 1);
  }
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
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
