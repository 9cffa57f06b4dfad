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
  kOneOfThese,  // at least one of the form's files with this need
  kOptional,
};

// One file that a data set is read from, under one of several names; each may also end in ".gz".
struct DataFile {
  std::vector<std::string> names;
  Need need = Need::kAlways;
  bool is_folder = false;  // a folder of files, never compressed
};

// Files that belong together: one form in which a data set can be stored.
using DataForm = std::vector<DataFile>;

// The size of a data set; nullopt for numbers that are unknown or do not apply.
struct DataCounts {
  std::optional<std::uint64_t> rows;  // ratings, links or samples
  std::optional<std::uint64_t> users;
  std::optional<std::uint64_t> items;
  std::optional<std::uint64_t> classes;
};

// A file in an archive, named without folders. Checksums are "sha256:...", "md5:..." or empty.
struct ArchiveMember {
  std::string name;
  std::string checksum;
};

// Where a data set can be downloaded. An archive is unpacked: the members with these names, in any
// of its folders, go into the data set's folder.
struct Download {
  std::string url;
  std::string file;                    // its local name; empty for archives
  std::vector<ArchiveMember> members;  // of the archive
  std::string checksum;                // of the downloaded file
};

// The files of a data set on this machine: the index of their form in DataSet::forms, and their
// paths in the order of that form; empty for optional files that are missing.
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
  std::vector<std::string> folders;  // below a data folder; `mcnb data get` uses the first
  std::vector<DataForm> forms;       // the first complete one is read
  DataCounts published;
  std::vector<Download> downloads;
  std::string by_hand;  // why the program cannot download it, and what to do
  std::function<Ratings(const FoundFiles&, ThreadPool&)> read_ratings;  // for ratings and links
  std::function<Samples(const FoundFiles&, ThreadPool&)> read_samples;
};

// All known data sets, sorted by name.
std::span<const DataSet> data_sets();
// Throws Error (kUsage), listing the known data sets, for an unknown name.
const DataSet& find_data_set(const std::string& name);

// The path of a file in the folder, under any of its names, plain or compressed; empty if it does
// not exist. Empty files, and folders of that name, do not count.
std::filesystem::path find_file(const std::filesystem::path& folder, const DataFile& file);

// The first form whose required files are all in these folders; each file is taken from the first
// folder that has it. FoundFiles::folder is the last folder.
std::optional<FoundFiles> find_files(const DataSet& set,
                                     std::span<const std::filesystem::path> folders);
// Whether the optional files exist too.
bool is_whole(const FoundFiles& files);

// The first folder that has all required files of one form.
std::optional<FoundFiles> locate(const DataSet& set, std::span<const std::filesystem::path> roots);
// Like locate, but throws Error (kInput) if files are missing: it names them, their home page, and
// the folder to put them in.
FoundFiles require_files(const DataSet& set, std::span<const std::filesystem::path> roots);

// Counts what was read in the same way as the published numbers.
DataCounts count(const Ratings& ratings, DataKind kind);
DataCounts count(const Samples& samples);

// The required files as text: "ratings.csv or ratings.dat or u.data"; "a; b, or: c" for several
// files and forms.
std::string expected_text(const DataSet& set);

}  // namespace mcnb
