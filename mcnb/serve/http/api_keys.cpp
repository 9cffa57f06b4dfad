#include "mcnb/serve/http/api_keys.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/identifiers.h"

namespace mcnb {
namespace {

constexpr std::size_t kDigestDigits = 64;

bool allows(Role role, Right right) {
  switch (right) {
    case Right::kNone:
      return true;
    case Right::kDecide:
      return role == Role::kDecide || role == Role::kAdmin;
    case Right::kRead:
      return role == Role::kRead || role == Role::kAdmin;
    case Right::kAdmin:
      return role == Role::kAdmin;
  }
  return false;
}

}  // namespace

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

std::string new_api_key() { return random_id() + random_id(); }

Role parse_role(const std::string& text) {
  if (text == "decide") {
    return Role::kDecide;
  }
  if (text == "read") {
    return Role::kRead;
  }
  if (text == "admin") {
    return Role::kAdmin;
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("role: expected decide, read or admin, got \"{}\"", text));
}

ApiKeys::ApiKeys(std::vector<ApiKey> keys) : keys_(std::move(keys)) {
  for (const ApiKey& key : keys_) {
    if (key.sha256.size() != kDigestDigits ||
        key.sha256.find_first_not_of("0123456789abcdef") != std::string::npos) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("key \"{}\": sha256: expected {} hexadecimal digits, in lower case",
                              key.name, kDigestDigits));
    }
  }
}

KeyVerdict ApiKeys::check(std::string_view key, Right right) const {
  if (keys_.empty() || right == Right::kNone) {
    return {};
  }
  if (key.empty()) {
    return {.access = Access::kNoKey, .name = {}, .digest = {}};
  }
  KeyVerdict verdict{.access = Access::kUnknownKey, .name = {}, .digest = sha256_hex(key)};
  for (const ApiKey& known : keys_) {
    if (::CRYPTO_memcmp(known.sha256.data(), verdict.digest.data(), kDigestDigits) == 0) {
      verdict.access = allows(known.role, right) ? Access::kGranted : Access::kNotAllowed;
      verdict.name = known.name;
    }
  }
  return verdict;
}

std::string ApiKeys::client_of(std::string_view key, const std::string& address) const {
  const KeyVerdict verdict = key.empty() ? KeyVerdict{} : check(key, Right::kDecide);
  return verdict.name.empty() ? address : verdict.digest;
}

}  // namespace mcnb
