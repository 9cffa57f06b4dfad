#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// What the key of a request must allow.
enum class Right : std::uint8_t {
  kNone,    // no key is needed
  kDecide,  // rank, reward, activate
  kRead,    // show models, events, users and metrics
  kAdmin,   // create, change and delete models, forget users, back up
};

enum class Role : std::uint8_t { kDecide, kRead, kAdmin };

struct ApiKey {
  std::string name;
  Role role = Role::kDecide;
  std::string sha256;  // of the key, 64 hexadecimal digits; the key itself is not stored
};

std::string sha256_hex(std::string_view text);
// A new key: 256 random bits.
std::string new_api_key();
// Throws Error (kUsage) for an unknown role.
Role parse_role(const std::string& text);

enum class Access { kGranted, kNoKey, kUnknownKey, kNotAllowed };

// What the keys say about a request.
struct KeyVerdict {
  Access access = Access::kGranted;
  std::string name;    // of the key; empty if there is none or it is unknown
  std::string digest;  // SHA-256 of the key that was sent; empty if none was, or none is needed
};

// Decides which key may do what. Without keys everybody may do everything; the service then listens
// on loopback only.
class ApiKeys {
 public:
  ApiKeys() = default;
  // Throws Error (kUsage) naming the key if a hash is malformed.
  explicit ApiKeys(std::vector<ApiKey> keys);

  bool empty() const { return keys_.empty(); }
  // Its time does not depend on which key matches.
  KeyVerdict check(std::string_view key, Right right) const;
  // Who shares the service's time: whoever has the same key, and where there are no keys, whoever
  // has the same address.
  std::string client_of(std::string_view key, const std::string& address) const;

 private:
  std::vector<ApiKey> keys_;
};

}  // namespace mcnb
