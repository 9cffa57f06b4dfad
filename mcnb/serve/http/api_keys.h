#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// What a request needs the right to.
enum class Right : std::uint8_t {
  kNone,    // anybody may: is it alive
  kDecide,  // rank, reward, activate
  kRead,    // look at models, events, users, figures
  kAdmin,   // make, change and delete models, forget users
};

enum class Role : std::uint8_t { kDecide, kRead, kAdmin };

struct ApiKey {
  std::string name;
  Role role = Role::kDecide;
  std::string sha256;  // of the key, 64 hexadecimal digits; the key itself is nowhere
};

std::string sha256_hex(std::string_view text);
// A new key: 256 random bits.
std::string new_api_key();
// Throws Error (kUsage) for a role that there is not.
Role parse_role(const std::string& text);

enum class Access { kGranted, kNoKey, kUnknownKey, kNotAllowed };

// Who may do what. Without keys everybody may do everything: the service then listens on loopback
// only.
class ApiKeys {
 public:
  ApiKeys() = default;
  // Throws Error (kUsage) for hashes that are none.
  explicit ApiKeys(std::vector<ApiKey> keys);

  bool empty() const { return keys_.empty(); }
  // Takes the same time whichever key it is.
  Access check(std::string_view key, Right right) const;

 private:
  std::vector<ApiKey> keys_;
};

}  // namespace mcnb
