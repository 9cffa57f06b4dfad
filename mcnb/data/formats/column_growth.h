#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace mcnb {

// The largest growth that a guess or a file's header may ask for at once: a wrong one must not take
// all memory.
inline constexpr double kMostGrowth = 8.0;

// Asks the system to use large pages for memory that is about to be filled, which is then much
// cheaper to fill. The system may ignore it.
void prefer_large_pages(void* memory, std::size_t bytes);

// Growth of a column that is longer than expected: in proportion to its length, so that not every
// further value moves it.
inline constexpr double kUnexpectedGrowth = 1.5;

// Makes room for `added` more values in a column. `growth` is the expected final length, relative
// to the length after these values; a good guess makes moves rare.
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

// Appends numbers to a column that will have `expected` values in the end.
template <class T>
void append(std::vector<float>& column, std::span<const T> values, std::size_t expected) {
  make_room(column, values.size(),
            static_cast<double>(expected) / static_cast<double>(column.size() + values.size()));
  column.insert(column.end(), values.begin(), values.end());
}

}  // namespace mcnb
