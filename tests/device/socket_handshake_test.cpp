// What ranks prove to each other over a new connection, and what strangers try instead.
#include "device/socket_handshake.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "socket_helpers.hpp"

namespace tapa::device {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <class Value>
Bytes bytes_of(const Value& value) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(&value);
  return {begin, begin + sizeof(value)};
}

void say(const Descriptor& socket, const Bytes& words) {
  EXPECT_TRUE(words.empty() || write_few(socket, words.data(), words.size()));
}

/// Both ends of connections over the loopback interface, between this test's ranks 5 and 2.
class Handshakes : public testing::Test {
 protected:
  struct Ends {
    Descriptor caller, called;
  };

  Handshakes() {
    SocketAddress any{};
    any.v4.sin_family = AF_INET;
    any.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listening_ = listen_at(any, address_);
  }

  Ends connect() {
    Ends made;
    made.caller = connected_to(address_);
    for (const auto late = soon(); !made.called.is_open() && std::chrono::steady_clock::now() < late;)
      made.called = accept_one(listening_);
    return made;
  }

  /// What an end makes of what is there, and still comes.
  template <class End>
  Handshake outcome(End& end, const Descriptor& socket) const {
    Handshake handshake = Handshake::under_way;
    for (const auto late = soon();
         handshake == Handshake::under_way && std::chrono::steady_clock::now() < late;)
      handshake = end.proceed(digest_, socket);
    return handshake;
  }

  [[nodiscard]] CallerHandshake caller() const { return {pairing_, token_}; }
  [[nodiscard]] CalledHandshake called() const { return {pairing_.called, token_}; }

  /// What a rank with some token would claim on a connection.
  static Claim claim_on(const Descriptor& socket, const Pairing& pairing = {5, 2, 3}) {
    return {Claim::asks, pairing, random_number(), {}, own_end(socket), other_end(socket)};
  }
  /// ... and say first.
  [[nodiscard]] Hello hello(const Claim& claim, const Number& token) const {
    return {claim.pairing.caller, claim.pairing.channel, claim.of_caller, proof_of(digest_, token, claim)};
  }

  /// What becomes of a caller who says `first(hello)` and `last(confirmation)` in place of what a rank would.
  template <class First, class Last>
  Handshake outcome_of(const First& first, const Last& last) {
    const Ends ends = connect();
    CalledHandshake end = called();
    Claim claim = claim_on(ends.caller);
    say(ends.caller, first(bytes_of(hello(claim, token_))));
    Answer answer{};
    std::size_t got = 0;
    Handshake handshake = Handshake::under_way;
    for (const auto late = soon(); got < sizeof(answer) && std::chrono::steady_clock::now() < late;) {
      handshake = end.proceed(digest_, ends.called);
      if (handshake == Handshake::failed) return handshake;
      (void)read_on(ends.caller, &answer, sizeof(answer), got);
    }
    claim.step = Claim::confirms;
    claim.of_called = answer.number;
    say(ends.caller, last(bytes_of(proof_of(digest_, token_, claim))));
    ::shutdown(ends.caller.get(), SHUT_WR);
    return outcome(end, ends.called);
  }

  KeyedDigest digest_;
  Pairing pairing_{5, 2, 3};
  Number token_ = random_number();
  SocketAddress address_{};
  Descriptor listening_;
};

Bytes as_it_is(Bytes words) {
  return words;
}

/// Bytes with one bit that is another.
auto damaged(std::size_t bit) {
  return [bit](Bytes words) {
    words[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    return words;
  };
}

TEST_F(Handshakes, DigestsAreThoseOfTheStandard) {  // RFC 4231, case 2
  const std::string key = "Jefe", text = "what do ya want for nothing?";
  const KeyedDigest::Value digest = digest_({reinterpret_cast<const std::uint8_t*>(key.data()), key.size()},
                                            std::as_bytes(std::span(text)));
  const std::array<std::uint8_t, 32> expected = {
      0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
      0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  EXPECT_EQ(digest, expected);
  EXPECT_TRUE(digest_.alike(digest, expected));
}

TEST_F(Handshakes, TwoRanksBelieveEachOther) {
  const Ends ends = connect();
  CallerHandshake one = caller();
  CalledHandshake other = called();
  Handshake heard = Handshake::under_way, said = Handshake::under_way;
  for (const auto late = soon(); (heard != Handshake::done || said != Handshake::done);) {
    ASSERT_LT(std::chrono::steady_clock::now(), late);
    if (said != Handshake::done) said = one.proceed(digest_, ends.caller);
    if (heard != Handshake::done) heard = other.proceed(digest_, ends.called);
    ASSERT_TRUE(heard != Handshake::failed && said != Handshake::failed);
  }
  EXPECT_EQ(other.pairing().caller, 5);
  EXPECT_EQ(other.pairing().channel, 3);
}

TEST_F(Handshakes, TheTokenIsNotSent) {
  const Ends ends = connect();
  CallerHandshake one = caller();
  EXPECT_EQ(one.proceed(digest_, ends.caller), Handshake::under_way);
  Hello hello{};
  EXPECT_TRUE(read_all(ends.called, &hello, sizeof(hello)));
  const Bytes said = bytes_of(hello);
  EXPECT_TRUE(std::ranges::search(said, token_).empty());
}

TEST_F(Handshakes, EveryByteOfAClaimCounts) {
  Claim claim{Claim::asks, pairing_, random_number(), random_number(), {2, 3, {4}}, {5, 6, {7}}};
  const KeyedDigest::Value proof = proof_of(digest_, token_, claim);
  const auto bytes = std::as_writable_bytes(std::span(&claim, 1));
  for (std::byte& each : bytes) {
    each ^= std::byte{1};
    EXPECT_NE(proof_of(digest_, token_, claim), proof);
    each ^= std::byte{1};
  }
  EXPECT_EQ(proof_of(digest_, token_, claim), proof);
  EXPECT_NE(proof_of(digest_, random_number(), claim), proof);
}

TEST_F(Handshakes, ACallerWithoutTheTokenIsRefused) {
  EXPECT_EQ(outcome_of(as_it_is, as_it_is), Handshake::done);  // as a rank
  for (std::size_t bit = 0; bit < 8 * sizeof(Hello); ++bit)
    ASSERT_EQ(outcome_of(damaged(bit), as_it_is), Handshake::failed) << "bit " << bit;
  for (std::size_t bit = 0; bit < 8 * sizeof(Proof); ++bit)
    ASSERT_EQ(outcome_of(as_it_is, damaged(bit)), Handshake::failed) << "bit " << bit;
}

TEST_F(Handshakes, WhoEndsInTheMiddleIsRefused) {
  for (std::size_t length = 0; length < sizeof(Hello); ++length) {
    const Ends ends = connect();
    CalledHandshake end = called();
    Bytes words = bytes_of(hello(claim_on(ends.caller), token_));
    words.resize(length);
    say(ends.caller, words);
    ::shutdown(ends.caller.get(), SHUT_WR);
    ASSERT_EQ(outcome(end, ends.called), Handshake::failed) << length << " bytes";
  }
  const auto some = [](Bytes words) { return words.pop_back(), words; };
  EXPECT_EQ(outcome_of(as_it_is, some), Handshake::failed);
}

TEST_F(Handshakes, WhoSpeaksSlowlyHoldsUpNobody) {
  const Ends ends = connect();
  CalledHandshake end = called();
  for (const std::uint8_t each : bytes_of(hello(claim_on(ends.caller), token_))) {
    EXPECT_EQ(end.proceed(digest_, ends.called), Handshake::under_way);
    EXPECT_FALSE(end.knows_caller());
    say(ends.caller, {each});
  }
  for (const auto late = soon(); !end.knows_caller() && std::chrono::steady_clock::now() < late;)
    EXPECT_EQ(end.proceed(digest_, ends.called), Handshake::under_way);
  EXPECT_TRUE(end.knows_caller());
}

TEST_F(Handshakes, WhatWasSaidBeforeIsRefused) {
  Bytes asked, confirmed;
  const auto keep = [](Bytes& kept) { return [&kept](Bytes words) { return kept = words; }; };
  const auto again = [](const Bytes& kept) { return [&kept](const Bytes&) { return kept; }; };
  EXPECT_EQ(outcome_of(keep(asked), keep(confirmed)), Handshake::done);
  EXPECT_EQ(outcome_of(again(asked), as_it_is), Handshake::failed);
  EXPECT_EQ(outcome_of(as_it_is, again(confirmed)), Handshake::failed);
}

TEST_F(Handshakes, WhatIsForAnotherRankOrFromAnotherAddressIsRefused) {
  const auto is_believed = [&](const Pairing& pairing, const Number& token, bool elsewhere) {
    const Ends ends = connect();
    const Ends others = connect();
    CalledHandshake end = called();
    say(ends.caller, bytes_of(hello(claim_on(elsewhere ? others.caller : ends.caller, pairing), token)));
    ::shutdown(ends.caller.get(), SHUT_WR);
    EXPECT_EQ(outcome(end, ends.called), Handshake::failed);
    return end.knows_caller();
  };
  EXPECT_TRUE(is_believed(pairing_, token_, false));
  EXPECT_FALSE(is_believed({5, 1, 3}, token_, false));
  EXPECT_FALSE(is_believed(pairing_, random_number(), false));
  EXPECT_FALSE(is_believed(pairing_, token_, true));
}

/// A stranger at the address of a rank, who sends back what he hears, or another number.
TEST_F(Handshakes, AnAnswerThatIsTheQuestionIsRefused) {
  const auto outcome_with = [&](const auto& answer_to) {
    const Ends ends = connect();
    CallerHandshake one = caller();
    EXPECT_EQ(one.proceed(digest_, ends.caller), Handshake::under_way);
    Hello asked{};
    EXPECT_TRUE(read_all(ends.called, &asked, sizeof(asked)));
    Claim claim{Claim::answers, pairing_, asked.number, {}, other_end(ends.called), own_end(ends.called)};
    say(ends.called, bytes_of(answer_to(asked, claim)));
    return outcome(one, ends.caller);
  };
  const auto right = [&](const Hello&, Claim claim) {
    claim.of_called = random_number();
    return Answer{claim.of_called, proof_of(digest_, token_, claim)};
  };
  EXPECT_EQ(outcome_with(right), Handshake::done);
  EXPECT_EQ(outcome_with([](const Hello& asked, const Claim&) {
              return Answer{asked.number, asked.proof};
            }),
            Handshake::failed);
  EXPECT_EQ(outcome_with([](const Hello& asked, const Claim&) {
              return Answer{{}, asked.proof};
            }),
            Handshake::failed);
  EXPECT_EQ(outcome_with([&](const Hello& asked, const Claim& claim) {
              return Answer{random_number(), right(asked, claim).proof};
            }),
            Handshake::failed);
}

/// Random words, in pieces, to either end: none is believed, and each ends.
TEST_F(Handshakes, NoiseIsRefused) {
  std::mt19937 random(7);
  const auto words = [&] {
    Bytes made(random() % 160);
    std::ranges::generate(made, [&] { return static_cast<std::uint8_t>(random()); });
    return made;
  };
  for (int round = 0; round < 300; ++round) {
    const Ends ends = connect();
    CallerHandshake one = caller();
    CalledHandshake other = called();
    const bool to_caller = round % 2 == 0;
    const Descriptor& stranger = to_caller ? ends.called : ends.caller;
    Handshake handshake = Handshake::under_way;
    for (int piece = 0; piece < 3 && handshake == Handshake::under_way; ++piece) {
      const Bytes noise = words();
      if (!noise.empty()) (void)write_few(stranger, noise.data(), noise.size());
      handshake = to_caller ? one.proceed(digest_, ends.caller) : other.proceed(digest_, ends.called);
      ASSERT_NE(handshake, Handshake::done);
    }
    ::shutdown(stranger.get(), SHUT_WR);
    if (handshake == Handshake::under_way)
      handshake = to_caller ? outcome(one, ends.caller) : outcome(other, ends.called);
    ASSERT_EQ(handshake, Handshake::failed);
  }
}

}  // namespace
}  // namespace tapa::device
