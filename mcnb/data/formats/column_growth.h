#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace mcnb {

// Growth that a guess or a file's header may ask for at once, lest a wrong one take all memory.
inline constexpr double kMostGrowth = 8.0;

// Tells the system to back memory that is about to be filled by large pages, where it can: filling
// it is then much cheaper. Only a hint.
void prefer_large_pages(void* memory, std::size_t bytes);

// Growth of a column that has outgrown what was expected of it: by a share of its length, lest
// every further value move it.
inline constexpr double kUnexpectedGrowth = 1.5;

// Room for `added` more values in a column that is expected to become `growth` times as long as it
// is then, so that it seldom moves.
template <class T>
void make_room(std::vector<T>& column, std::size_t added, double growth) {
  const std::size_t needed = column.size() + added;
  if (needed > column.capacity()) {
    const double fewest = column.empty() || growth > 1.0 ? 1.0 : kUnexpectedGrowth;
    const double expected = static_cast<double>(needed) * std::clamp(growth, fewest, kMostGrowth);
    std::vector<T> larger;
    larger.reserve(std::max(static_cast<std::size_t>(expected), needed));
    prefer_large_pages(larger.data(), larger.capacity() * sizeof(T));  // before it is moved there
    larger.insert(larger.end(), column.begin(), column.end());
    column.swap(larger);
  }
}

// Appends bytes, or other numbers, to a column of `expected` values in the end.
template <class T>
void append(std::vector<float>& column, std::span<const T> values, std::size_t expected) {
  make_room(column, values.size(),
            static_cast<double>(expected) / static_cast<double>(column.size() + values.size()));
  column.insert(column.end(), values.begin(), values.end());
}

}  // namespace mcnb
