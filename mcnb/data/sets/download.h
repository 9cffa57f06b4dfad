#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "mcnb/data/sets/catalogue.h"

namespace mcnb {

// Progress of one file. `total` is 0 if the server does not tell it.
struct DownloadProgress {
  std::string url;
  std::uint64_t bytes = 0;
  std::uint64_t total = 0;
};

// Downloads the missing files of a data set into a folder, which is made if it does not exist. New
// files stay in its subfolder "incoming" until checksums are right and the whole data set has been
// read once; then they are moved into the folder. Existing files are never replaced. An interrupted
// download continues where it ended; wrong files are deleted. `report` is called with the progress
// and returns false to stop.
//
// Throws Error: kUsage for data sets that a program cannot download, kSystem if the network or the
// disk fails, kInput if the files are not as expected. Every message says what to do by hand.
// Returns false if `report` stopped it.
bool download(const DataSet& set, const std::filesystem::path& folder, ThreadPool& threads,
              const std::function<bool(const DownloadProgress&)>& report);

// Throws Error (kUsage), which says what to do by hand, if a program cannot download the data set.
void require_downloads(const DataSet& set, const std::filesystem::path& folder);

// "sha256:..." or "md5:..." of a file, of the same kind as `like`. Throws Error (kSystem).
std::string file_checksum(const std::filesystem::path& path, const std::string& like);

}  // namespace mcnb
