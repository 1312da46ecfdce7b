#include "device/keyed_digest.hpp"

#include <dlfcn.h>
#include <sys/random.h>

#include <string>

#include "device/device_error.hpp"

namespace tapa::device {

namespace {

constexpr const char* kName = "libcrypto.so.3";

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                      std::string(kName) + " has no " + name + ", expected OpenSSL 3");
}

}  // namespace

KeyedDigest::KeyedDigest() {
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                      std::string("OpenSSL (Debian: libssl3): ") + (why != nullptr ? why : kName));
  }
  find(library, "EVP_sha256", sha256_);
  find(library, "HMAC", hmac_);
  find(library, "CRYPTO_memcmp", compare_);
}

KeyedDigest::Value KeyedDigest::operator()(std::span<const std::uint8_t> key,
                                           std::span<const std::byte> text) const {
  Value digest{};
  unsigned bytes = 0;
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const bool made = hmac_(sha256_(), key.data(), static_cast<int>(key.size()), begin, text.size(),
                          digest.data(), &bytes) != nullptr;
  if (made && bytes == digest.size()) return digest;
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, std::string(kName) + " makes no HMAC with SHA-256");
}

bool KeyedDigest::alike(const Value& a, const Value& b) const {
  return compare_(a.data(), b.data(), a.size()) == 0;
}

std::array<std::uint8_t, 32> random_number() {
  std::array<std::uint8_t, 32> number{};
  if (::getrandom(number.data(), number.size(), 0) != static_cast<ssize_t>(number.size()))
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "getrandom gives no random bytes");
  return number;
}

}  // namespace tapa::device
