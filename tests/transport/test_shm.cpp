// Shared-memory messages: ranks of one node as objects of one process, and as two real processes that sleep.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <random>
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

/// `count` ranks of one node.
std::vector<std::unique_ptr<ShmNode>> make_nodes(int count) {
  std::string why;
  std::vector<ShmSegment> segments;
  std::vector<std::string> tokens;
  for (int r = 0; r < count; ++r) {
    auto segment = ShmSegment::create(count, ShmNode::extra_bytes(), why);
    EXPECT_TRUE(segment) << why;
    tokens.push_back(segment->token());
    segments.push_back(std::move(*segment));
  }
  std::vector<int> members(static_cast<std::size_t>(count));
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::unique_ptr<ShmNode>> nodes;
  for (int r = 0; r < count; ++r) {
    nodes.push_back(
        ShmNode::connect(std::move(segments[static_cast<std::size_t>(r)]), r, count, members, tokens, why));
    EXPECT_TRUE(nodes.back()) << why;
  }
  for (auto& node : nodes) node->agreed(false, 0);
  return nodes;
}

TEST(ShmNode, MovesMessagesOfAllSizesInAnyTagOrder) {
  auto nodes = make_nodes(2);
  const std::vector<std::size_t> sizes = {
      0, 1, 15, 16, 4096, ShmSegment::kMaxCapacity, ShmSegment::kMaxCapacity * 5 + 3, 7};
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

TEST(ShmNode, TwoProcessesExchangeMoreThanTheRingsHold) {
  std::string why;
  auto a = ShmSegment::create(2, ShmNode::extra_bytes(), why);
  auto b = ShmSegment::create(2, ShmNode::extra_bytes(), why);
  ASSERT_TRUE(a && b) << why;
  const std::vector<std::string> tokens = {a->token(), b->token()};
  const auto exchange = [&](int rank, ShmSegment segment) {
    auto node = ShmNode::connect(std::move(segment), rank, 2, {0, 1}, tokens, why);
    if (!node) return false;
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
  const auto segment = ShmSegment::create(1, 0, why);
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
