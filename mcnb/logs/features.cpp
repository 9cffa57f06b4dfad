#include "mcnb/logs/features.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/hash.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kTextSalt = 0x9E3779B97F4A7C15ULL;

void add(std::uint64_t hash, double value, std::span<double> vector) {
  const std::uint64_t sign = hash >> 63;
  const std::uint64_t bucket = (hash & 0x7fffffffffffffffULL) % vector.size();
  vector[static_cast<std::size_t>(bucket)] += sign == 0 ? value : -value;
}

std::uint64_t pair_hash(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t both[] = {a, b};
  return hash_bytes({reinterpret_cast<const char*>(both), sizeof both}, kTextSalt);
}

}  // namespace

std::uint64_t path_below(std::uint64_t path, std::string_view name) {
  return hash_bytes(name, path);
}

Token text_token(std::uint64_t path, std::string_view text) {
  return {hash_bytes(text, path ^ kTextSalt), 1.0};
}

void add_tokens(std::span<const Token> tokens, std::span<double> vector) {
  for (const Token& token : tokens) {
    add(token.hash, token.value, vector);
  }
}

void add_pairs(std::span<const Token> some, std::span<const Token> others,
               std::span<double> vector) {
  for (const Token& a : some) {
    for (const Token& b : others) {
      add(pair_hash(a.hash, b.hash), a.value * b.value, vector);
    }
  }
}

bool append_unit(std::span<double> vector, std::vector<float>& out) {
  double largest = 0.0;
  for (const double x : vector) {
    if (!std::isfinite(x)) {
      return false;  // std::max below would pass over NaN
    }
    largest = std::max(largest, std::abs(x));
  }
  double squares = 0.0;
  if (largest > 0.0) {
    for (double& x : vector) {
      x /= largest;
      squares += x * x;
    }
  }
  const double length = squares > 0.0 ? std::sqrt(squares) : 1.0;
  for (const double x : vector) {
    out.push_back(static_cast<float>(x / length));
  }
  return true;
}

}  // namespace mcnb
