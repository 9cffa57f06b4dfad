#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/data/ratings.h"
#include "mcnb/data/samples.h"

namespace mcnb {

enum class DataKind {
  kRatings,  // who rated what
  kLinks,    // who is linked to whom
  kSamples,  // labelled samples
};

enum class Need {
  kAlways,
  kOneOfThese,  // at least one of the files of a form that say so
  kOptional,
};

// One file that a data set is read from, under one of several names; each may also end in ".gz".
struct DataFile {
  std::vector<std::string> names;
  Need need = Need::kAlways;
  bool is_folder = false;  // with files below it; then without ".gz"
};

// Files that belong together: one way in which a data set can lie here.
using DataForm = std::vector<DataFile>;

// What a data set holds, as far as it is known; nothing where a number does not apply.
struct DataCounts {
  std::optional<std::uint64_t> rows;  // ratings, links or samples
  std::optional<std::uint64_t> users;
  std::optional<std::uint64_t> items;
  std::optional<std::uint64_t> classes;
};

// A file in an archive, by its name alone. Checksums are "sha256:..." or "md5:...", or empty.
struct ArchiveMember {
  std::string name;
  std::string checksum;
};

// Where a data set can be downloaded. An archive is unpacked: the members with these names,
// wherever they lie in it, go into the data set's folder.
struct Download {
  std::string url;
  std::string file;                    // what it is called here; empty for archives
  std::vector<ArchiveMember> members;  // of the archive
  std::string checksum;                // of what is downloaded
};

// The files of a data set on this machine: which of DataSet::forms they have, and their paths in
// the order of that form, empty where one that is not needed is missing.
struct FoundFiles {
  std::filesystem::path folder;
  std::size_t form = 0;
  std::vector<std::filesystem::path> paths;
};

// A public data set: what it is, where it comes from, and how its files are read.
struct DataSet {
  std::string name;
  DataKind kind;
  std::string about;
  std::string home;
  std::string licence;
  std::vector<std::string> folders;  // that hold it, below a data folder; the first is ours
  std::vector<DataForm> forms;       // the first that is there is read
  DataCounts published;
  std::vector<Download> downloads;
  std::string by_hand;  // why there is no download, and what to do
  std::function<Ratings(const FoundFiles&, ThreadPool&)> read_ratings;  // of ratings and links
  std::function<Samples(const FoundFiles&, ThreadPool&)> read_samples;
};

// All that are known, by name.
std::span<const DataSet> data_sets();
// Throws Error (kUsage) listing the known ones.
const DataSet& find_data_set(const std::string& name);

// The file in the folder, under any of its names, plain or compressed; empty where there is none.
// An empty file, or a folder of that name, is none.
std::filesystem::path find_file(const std::filesystem::path& folder, const DataFile& file);

// The first form of the data set whose needed files lie in these folders, each in the first that
// has it. FoundFiles::folder is the last of them.
std::optional<FoundFiles> find_files(const DataSet& set,
                                     std::span<const std::filesystem::path> folders);
// Whether the files that are not needed are there too.
bool is_whole(const FoundFiles& files);

// The first of the folders that has all needed files of a form of the data set.
std::optional<FoundFiles> locate(const DataSet& set, std::span<const std::filesystem::path> roots);
// Throws Error (kInput) that says which files are missing, from which home page they come, and
// where to put them.
FoundFiles require_files(const DataSet& set, std::span<const std::filesystem::path> roots);

// What was read, counted as the published numbers are.
DataCounts count(const Ratings& ratings, DataKind kind);
DataCounts count(const Samples& samples);

// The needed files, for people: "ratings.csv or ratings.dat or u.data", or "a; b, or: c" where
// there are several, or several forms.
std::string expected_text(const DataSet& set);

}  // namespace mcnb
