#include "device/socket_handshake.hpp"

#include <span>
#include <type_traits>

namespace tapa::device {

static_assert(std::has_unique_object_representations_v<Claim>, "no bytes that have no meaning");
static_assert(std::has_unique_object_representations_v<Hello>);
static_assert(std::has_unique_object_representations_v<Answer>);

Proof proof_of(const KeyedDigest& digest, const Number& token, const Claim& claim) {
  return digest(token, std::as_bytes(std::span(&claim, 1)));
}

CallerHandshake::CallerHandshake(const Pairing& pairing, const Number& token) : token_(token) {
  claim_.pairing = pairing;
  claim_.of_caller = random_number();
}

Handshake CallerHandshake::proceed(const KeyedDigest& digest, const Descriptor& socket) {
  if (!has_asked_ && !ask(digest, socket)) return Handshake::failed;
  if (!read_on(socket, &answer_, sizeof(answer_), got_)) return Handshake::failed;
  if (got_ < sizeof(answer_)) return Handshake::under_way;
  claim_.step = Claim::answers;
  claim_.of_called = answer_.number;
  if (!digest.alike(answer_.proof, proof_of(digest, token_, claim_))) return Handshake::failed;
  claim_.step = Claim::confirms;
  const Proof own = proof_of(digest, token_, claim_);
  return write_few(socket, &own, sizeof(own)) ? Handshake::done : Handshake::failed;
}

bool CallerHandshake::ask(const KeyedDigest& digest, const Descriptor& socket) {
  claim_.step = Claim::asks;
  claim_.caller_at = own_end(socket);
  claim_.called_at = other_end(socket);
  const Hello hello{claim_.pairing.caller, claim_.pairing.channel, claim_.of_caller,
                    proof_of(digest, token_, claim_)};
  has_asked_ = write_few(socket, &hello, sizeof(hello));
  return has_asked_;
}

CalledHandshake::CalledHandshake(int rank, const Number& token) : token_(token) {
  claim_.pairing.called = rank;
}

Handshake CalledHandshake::proceed(const KeyedDigest& digest, const Descriptor& socket) {
  if (!has_answered_) {
    if (!read_on(socket, &hello_, sizeof(hello_), got_)) return Handshake::failed;
    if (got_ < sizeof(hello_)) return Handshake::under_way;
    if (!answer(digest, socket)) return Handshake::failed;
    got_ = 0;
  }
  if (!read_on(socket, &confirmation_, sizeof(confirmation_), got_)) return Handshake::failed;
  if (got_ < sizeof(confirmation_)) return Handshake::under_way;
  claim_.step = Claim::confirms;
  const bool meant = digest.alike(confirmation_, proof_of(digest, token_, claim_));
  return meant ? Handshake::done : Handshake::failed;
}

/// False for who has no proof.
bool CalledHandshake::answer(const KeyedDigest& digest, const Descriptor& socket) {
  claim_.step = Claim::asks;
  claim_.pairing.caller = hello_.rank;
  claim_.pairing.channel = hello_.channel;
  claim_.of_caller = hello_.number;
  claim_.caller_at = other_end(socket);
  claim_.called_at = own_end(socket);
  if (!digest.alike(hello_.proof, proof_of(digest, token_, claim_))) return false;
  claim_.step = Claim::answers;
  claim_.of_called = random_number();
  const Answer own{claim_.of_called, proof_of(digest, token_, claim_)};
  has_answered_ = write_few(socket, &own, sizeof(own));
  return has_answered_;
}

}  // namespace tapa::device
