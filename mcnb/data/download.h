#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "mcnb/data/catalogue.h"

namespace mcnb {

// How far one file has come. `total` is 0 where the server does not say.
struct DownloadProgress {
  std::string url;
  std::uint64_t bytes = 0;
  std::uint64_t total = 0;
};

// Fetches the files of a data set into a folder, which is made where it is missing. A file takes
// its place only when it is whole and its checksum right; what was fetched before an interruption
// is kept beside it (".part") and gone on from. `report` is told of progress and returns false to
// stop.
//
// Throws Error: kUsage for data sets that cannot be fetched by a program, kSystem where the net or
// the disk fails, kInput where what came is not what was expected. Each says what to do by hand.
// Returns false where `report` stopped it.
bool download(const DataSet& set, const std::filesystem::path& folder,
              const std::function<bool(const DownloadProgress&)>& report);

// "sha256:..." or "md5:..." of a file, after the pattern of `like`. Throws Error (kSystem).
std::string file_checksum(const std::filesystem::path& path, const std::string& like);

}  // namespace mcnb
