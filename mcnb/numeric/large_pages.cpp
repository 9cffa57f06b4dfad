#include "mcnb/numeric/large_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace mcnb {
namespace {

constexpr int kCollapse = 25;  // MADV_COLLAPSE, which glibc 2.36 lacks
constexpr std::uintptr_t kTogether = std::uintptr_t{64} << 20;  // bytes of one call of the system

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// The addresses of the mapping that begins with this line: "7f12a000-7f12c000 rw-p ...".
std::optional<Range> read_range(std::string_view line) {
  Range range;
  const char* end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, range.begin, 16);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') {
    return std::nullopt;
  }
  const auto last = std::from_chars(first.ptr + 1, end, range.end, 16);
  return last.ec == std::errc() && last.ptr != end && *last.ptr == ' ' ? std::optional(range)
                                                                       : std::nullopt;
}

}  // namespace

// Each mapping of /proc/self/smaps is a line with its addresses, and later one with its flags, of
// which "hg" says that large pages were asked for.
void restore_large_pages() {
  std::ifstream mappings("/proc/self/smaps");
  Range range;
  for (std::string line; std::getline(mappings, line);) {
    if (const std::optional<Range> found = read_range(line)) {
      range = *found;
    }
    if (!line.starts_with("VmFlags:") || line.find(" hg") == std::string::npos) {
      continue;
    }
    while (range.begin < range.end) {
      const std::uintptr_t end = std::min(range.end, (range.begin / kTogether + 1) * kTogether);
      // It fails where the memory is gone by now, or does not fill a large page.
      static_cast<void>(
          ::madvise(reinterpret_cast<void*>(range.begin), end - range.begin, kCollapse));
      range.begin = end;
    }
  }
}

}  // namespace mcnb
