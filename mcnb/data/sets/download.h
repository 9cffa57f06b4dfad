#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "mcnb/data/sets/catalogue.h"

namespace mcnb {

// How far one file has come. `total` is 0 where the server does not say.
struct DownloadProgress {
  std::string url;
  std::uint64_t bytes = 0;
  std::uint64_t total = 0;
};

// Fetches what is missing of a data set into a folder, which is made where it is missing. What
// comes lies in a folder "incoming" below it until checksums are right and the data set has been
// read once, with the files that were there before; only then do files take their places, and none
// that is there is replaced. What was fetched before an interruption is kept, and gone on from;
// what turns out wrong is thrown away. `report` is told of progress and returns false to stop.
//
// Throws Error: kUsage for data sets that cannot be fetched by a program, kSystem where the net or
// the disk fails, kInput where what came is not what was expected. Each says what to do by hand.
// Returns false where `report` stopped it.
bool download(const DataSet& set, const std::filesystem::path& folder, ThreadPool& threads,
              const std::function<bool(const DownloadProgress&)>& report);

// Throws Error (kUsage), with the way by hand, for data sets that a program cannot fetch.
void require_downloads(const DataSet& set, const std::filesystem::path& folder);

// "sha256:..." or "md5:..." of a file, after the pattern of `like`. Throws Error (kSystem).
std::string file_checksum(const std::filesystem::path& path, const std::string& like);

}  // namespace mcnb
