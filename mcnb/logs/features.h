#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mcnb {

// One feature of an action or a context, identified by the hash of its path: "price" has the value
// 3, "color=red" the value 1.
struct Token {
  std::uint64_t hash = 0;
  double value = 0.0;
};

inline constexpr std::size_t kMostTokens = 10'000;            // of one action, including pairs
inline constexpr std::size_t kMostTokensOfRequest = 500'000;  // of all actions of a request

// The roots of the paths of action, context and slot features: a name in two of them means two
// features.
inline constexpr std::uint64_t kActionPath = 1;
inline constexpr std::uint64_t kContextPath = 2;
inline constexpr std::uint64_t kSlotPath = 3;

// The path of a member of the object at `path`.
std::uint64_t path_below(std::uint64_t path, std::string_view name);
// The token of a text or a truth value at `path`.
Token text_token(std::uint64_t path, std::string_view text);

// Adds tokens to a vector. The hash of a token gives its bucket and its sign.
void add_tokens(std::span<const Token> tokens, std::span<double> vector);
// Adds the products of all pairs of tokens.
void add_pairs(std::span<const Token> some, std::span<const Token> others,
               std::span<double> vector);

// Scales a vector to unit length and appends it; a vector of zeros stays as it is. Returns false
// and appends nothing if a number is not finite.
[[nodiscard]] bool append_unit(std::span<double> vector, std::vector<float>& out);

}  // namespace mcnb
