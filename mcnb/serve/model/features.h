#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mcnb {

// One feature of an action or a context, known by the hash of its path: "price" = 3,
// "color=red" = 1.
struct Token {
  std::uint64_t hash = 0;
  double value = 0.0;
};

inline constexpr std::size_t kMostTokens = 10'000;            // of one action, pairs counted
inline constexpr std::size_t kMostTokensOfRequest = 500'000;  // of all its actions together

// Where tokens of actions and of contexts begin: the same name in both is not the same feature.
inline constexpr std::uint64_t kActionPath = 1;
inline constexpr std::uint64_t kContextPath = 2;

// The path of a member below a path, and the token of a text or a truth value there.
std::uint64_t path_below(std::uint64_t path, std::string_view name);
Token text_token(std::uint64_t path, std::string_view text);

// Adds tokens to a vector: each into one bucket, with a sign, both by its hash.
void add_tokens(std::span<const Token> tokens, std::span<double> vector);
// The same for all pairs.
void add_pairs(std::span<const Token> some, std::span<const Token> others,
               std::span<double> vector);

// Brings a vector to unit length and appends it; one of zeros stays as it is. False, and nothing is
// appended, where a number has left the finite range.
[[nodiscard]] bool append_unit(std::span<double> vector, std::vector<float>& out);

}  // namespace mcnb
