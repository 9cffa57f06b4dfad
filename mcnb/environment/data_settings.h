#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace mcnb {

/// Where the environments of data sets find their files, and where they keep what they prepare.
struct DataSettings {
  std::vector<std::filesystem::path> folders =
      {};  ///< with data sets; the first that has a file wins
  /// Keeps prepared data between runs; made if it is missing. Empty: nothing is kept. Files that
  /// are damaged or do not match their sources are made again.
  std::filesystem::path prepared = {};
  /// If prepared data cannot be kept: true throws Error (kSystem), false prepares it again next
  /// time.
  bool must_keep = false;
  std::size_t threads = 0;  ///< to read and prepare with; 0: one per processor
};

}  // namespace mcnb
