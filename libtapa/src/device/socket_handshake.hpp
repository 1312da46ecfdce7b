/// @file
/// Two ranks prove to each other over a new connection that they are of one job. What proves it, the token of
/// the rank that is called, which all ranks of the job know, is never sent.
///
///     caller:  who it is, a fresh number, a proof
///     called:  a fresh number of its own, a proof
///     caller:  a proof: of several connections between two ranks this one is meant
///
/// Proofs are digests with that token as key. In them are who calls whom on which channel, the numbers that
/// have been said, whose proof it is, and both addresses of the connection: what was recorded, is sent back,
/// or is passed on by somebody between the two, fits no other connection. Nothing is said to who has not
/// proved anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "device/keyed_digest.hpp"
#include "device/socket.hpp"

namespace tapa::device {

using Number = std::array<std::uint8_t, 32>;
using Proof = KeyedDigest::Value;

/// One connection, in words of ranks.
struct Pairing {
  std::int32_t caller, called, channel;
};

/// What a proof is about. Every byte counts.
struct Claim {
  enum Step : std::int32_t { asks, answers, confirms };
  Step step;
  Pairing pairing;
  Number of_caller, of_called;
  Endpoint caller_at, called_at;
};
[[nodiscard]] Proof proof_of(const KeyedDigest& digest, const Number& token, const Claim& claim);

struct Hello {
  std::int32_t rank, channel;
  Number number;
  Proof proof;
};
struct Answer {
  Number number;
  Proof proof;
};

enum class Handshake { under_way, failed, done };

/// The caller's side. Throws DeviceError where there are no random bytes.
class CallerHandshake {
 public:
  CallerHandshake(const Pairing& pairing, const Number& token);
  /// Does what can be done now with a socket that is connected; does not wait.
  [[nodiscard]] Handshake proceed(const KeyedDigest& digest, const Descriptor& socket);

 private:
  [[nodiscard]] bool ask(const KeyedDigest& digest, const Descriptor& socket);

  Claim claim_{};
  Number token_;
  bool has_asked_ = false;
  Answer answer_{};
  std::size_t got_ = 0;  ///< bytes of what is being read
};

/// The other side.
class CalledHandshake {
 public:
  CalledHandshake(int rank, const Number& token);
  [[nodiscard]] Handshake proceed(const KeyedDigest& digest, const Descriptor& socket);
  /// Whether the caller has shown that it is a rank.
  [[nodiscard]] bool knows_caller() const { return has_answered_; }
  /// Once it is done.
  [[nodiscard]] const Pairing& pairing() const { return claim_.pairing; }

 private:
  [[nodiscard]] bool answer(const KeyedDigest& digest, const Descriptor& socket);

  Claim claim_{};
  Number token_;
  bool has_answered_ = false;
  Hello hello_{};
  Proof confirmation_{};
  std::size_t got_ = 0;
};

}  // namespace tapa::device
