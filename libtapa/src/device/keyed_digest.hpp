/// @file
/// Digests that only who has a key can make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tapa::device {

/// HMAC with SHA-256, by OpenSSL's libcrypto, which is loaded when it is needed: it is on every machine that
/// has Python, and headers of it are not.
class KeyedDigest {
 public:
  using Value = std::array<std::uint8_t, 32>;

  /// Throws DeviceError where there is no such library.
  KeyedDigest();
  /// Throws DeviceError when the library refuses.
  [[nodiscard]] Value operator()(std::span<const std::uint8_t> key, std::span<const std::byte> text) const;
  /// In a time that does not depend on what they are.
  [[nodiscard]] bool alike(const Value& a, const Value& b) const;

 private:
  // As openssl/hmac.h, openssl/evp.h and openssl/crypto.h declare them since 1.1.
  const void* (*sha256_)() = nullptr;
  unsigned char* (*hmac_)(const void* kind, const void* key, int key_bytes, const unsigned char* text,
                          std::size_t bytes, unsigned char* digest, unsigned* digest_bytes) = nullptr;
  int (*compare_)(const void* a, const void* b, std::size_t bytes) = nullptr;
};

/// Random bytes of the system. Throws DeviceError.
[[nodiscard]] std::array<std::uint8_t, 32> random_number();

}  // namespace tapa::device
