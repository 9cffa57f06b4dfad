#include "mcnb/data/sets/download.h"

#include <curl/curl.h>
#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/data/sets/unpack.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

constexpr long kSecondsToConnect = 20;
constexpr long kSlowest = 100;  // bytes per second; slower for a minute is an error
constexpr long kSecondsOfSlowness = 60;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
using Report = std::function<bool(const DownloadProgress&)>;

// Says how to get the files without this program.
std::string by_hand(const DataSet& set, const fs::path& folder) {
  return fmt::format("by hand: download {1} from {0} and put it into {2}", set.home,
                     expected_text(set), folder.string());
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Opens a file as fopen does. Throws Error (kSystem).
File open_file(const fs::path& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode), std::fclose);
  if (file == nullptr) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
  }
  return file;
}

// Throws Error (kSystem) unless everything could be written; the file is closed in any case.
void close_file(File file, const fs::path& path) {
  const bool was_fine = std::ferror(file.get()) == 0;
  if (std::fclose(file.release()) != 0 || !was_fine) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot write: {}", path.string(), std::strerror(errno)));
  }
}

// Ignores errors: if the file stays, the next use of its path reports the problem.
void remove_file(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// The folder "incoming" below that of a data set. The destructor removes empty folders that were
// made here, and empty parts.
class Incoming {
 public:
  explicit Incoming(const fs::path& folder) : path_(folder / "incoming") {
    std::error_code error;
    for (fs::path missing = path_; !missing.empty() && !fs::exists(missing, error);
         missing = missing.parent_path()) {
      made_.push_back(missing);
    }
    if (made_.empty()) {
      made_ = {path_, folder};  // made by an earlier try
    }
    fs::create_directories(path_, error);
    if (error) {
      const std::string why = error.message();
      remove_folders();
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: cannot make the folder: {}", path_.string(), why));
    }
  }
  ~Incoming() {
    std::error_code error;
    for (const fs::path& part : parts_) {
      if (fs::exists(part, error) && fs::is_empty(part, error)) {
        fs::remove(part, error);
      }
    }
    remove_folders();
  }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  const fs::path& path() const { return path_; }

  // The path of a URL's data until it is complete.
  fs::path part_of(const std::string& url) {
    parts_.push_back(path_ / (fs::path(url).filename().string() + ".part"));
    return parts_.back();
  }

 private:
  void remove_folders() const {
    for (const fs::path& folder : made_) {
      std::error_code not_empty;
      fs::remove(folder, not_empty);
    }
  }

  fs::path path_;
  std::vector<fs::path> made_;  // innermost first
  std::vector<fs::path> parts_;
};

// One transfer, as the callbacks see it.
struct Transfer {
  const Report& report;
  DownloadProgress progress;
  std::uint64_t already = 0;
  bool stopped = false;
};

int tell_progress(void* context, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  transfer.progress.bytes = transfer.already + static_cast<std::uint64_t>(now);
  transfer.progress.total = total > 0 ? transfer.already + static_cast<std::uint64_t>(total) : 0;
  transfer.stopped = !transfer.report(transfer.progress);
  return transfer.stopped ? 1 : 0;
}

enum class Fetched {
  kWhole,
  kStopped,
  kNotFromHere,  // the server cannot continue after the part
};

// True if the server cannot continue a download: it has no byte ranges, or the part is already
// complete (which curl takes for success).
bool cannot_continue(CURLcode code, long status) {
  constexpr long kRangeNotSatisfiable = 416;
  return code == CURLE_RANGE_ERROR || code == CURLE_BAD_DOWNLOAD_RESUME ||
         status == kRangeNotSatisfiable;
}

// Appends the missing bytes of the URL to the part.
Fetched fetch_rest(const DataSet& set, const std::string& url, const fs::path& part,
                   const fs::path& folder, const Report& report) {
  std::error_code error;
  const std::uintmax_t already = is_there(part) ? fs::file_size(part, error) : 0;
  File file = open_file(part, "ab");
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) {
    throw Error(ErrorKind::kSystem, "the download library does not start");
  }
  Transfer transfer{.report = report, .progress = {.url = url}, .already = already};
  std::array<char, CURL_ERROR_SIZE> message{};
  CURL* handle = curl.get();
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(handle, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kSecondsToConnect);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, kSlowest);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, kSecondsOfSlowness);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, message.data());
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, file.get());
  curl_easy_setopt(handle, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(already));
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, tell_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &transfer);
  const CURLcode code = curl_easy_perform(handle);
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  if (transfer.stopped) {
    return Fetched::kStopped;
  }
  if (already > 0 && cannot_continue(code, status)) {
    return Fetched::kNotFromHere;
  }
  if (code != CURLE_OK) {
    const std::string why = message[0] != '\0' ? message.data() : curl_easy_strerror(code);
    throw Error(ErrorKind::kSystem, fmt::format("data set {}: cannot download {}: {}\n{}", set.name,
                                                url, why, by_hand(set, folder)));
  }
  close_file(std::move(file), part);
  return Fetched::kWhole;
}

// Downloads a URL; starts again if the server cannot continue. Returns false if it was stopped.
bool fetch(const DataSet& set, const std::string& url, const fs::path& part, const fs::path& folder,
           const Report& report) {
  Fetched fetched = fetch_rest(set, url, part, folder, report);
  if (fetched == Fetched::kNotFromHere) {
    remove_file(part);
    fetched = fetch_rest(set, url, part, folder, report);
  }
  return fetched == Fetched::kWhole;
}

bool is_right(const fs::path& path, const std::string& checksum) {
  return checksum.empty() || file_checksum(path, checksum) == checksum;
}

// Whether the data set's folder has the file that a download calls by this name, under any of its
// names.
bool is_here(const DataSet& set, const std::string& name, const fs::path& folder) {
  const std::string plain = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
  for (const DataForm& form : set.forms) {
    for (const DataFile& file : form) {
      if (std::ranges::find(file.names, plain) != file.names.end()) {
        return !find_file(folder, file).empty();
      }
    }
  }
  return is_there(folder / name);
}

std::vector<ArchiveMember> files_of(const Download& one) {
  return one.file.empty() ? one.members : std::vector<ArchiveMember>{{one.file, one.checksum}};
}

// The files that a download still has to bring.
std::vector<ArchiveMember> missing(const DataSet& set, const Download& one, const fs::path& folder,
                                   const fs::path& incoming) {
  std::vector<ArchiveMember> files = files_of(one);
  std::erase_if(files, [&](const ArchiveMember& file) {
    const fs::path fetched = incoming / file.name;
    return is_here(set, file.name, folder) ||
           (is_there(fetched) && is_right(fetched, file.checksum));
  });
  return files;
}

// The files in "incoming" that are complete.
std::vector<fs::path> waiting(const DataSet& set, const fs::path& incoming) {
  std::vector<fs::path> paths;
  for (const Download& one : set.downloads) {
    for (const ArchiveMember& file : files_of(one)) {
      if (is_there(incoming / file.name)) {
        paths.push_back(incoming / file.name);
      }
    }
  }
  return paths;
}

void expect_checksum(const fs::path& path, const std::string& what, const std::string& checksum) {
  if (!is_right(path, checksum)) {
    throw Error(ErrorKind::kInput, fmt::format("{}: expected {}, the download has {}", what,
                                               checksum, file_checksum(path, checksum)));
  }
}

// Checks and unpacks a download. Throws Error (kInput) if it is not what was expected.
void take_files(const Download& one, const std::vector<ArchiveMember>& files, const fs::path& part,
                const fs::path& incoming) {
  expect_checksum(part, one.url, one.checksum);
  if (!one.file.empty()) {
    move_file(part, incoming / one.file);
    return;
  }
  std::vector<std::string> names;
  for (const ArchiveMember& file : files) {
    names.push_back(file.name);
  }
  unpack(part, names, incoming);
  for (const ArchiveMember& file : files) {
    expect_checksum(incoming / file.name, one.url + ": " + file.name, file.checksum);
  }
  remove_file(part);
}

// Reads the new data set once: a download may be a sign-in page even if its HTTP status is 200.
void expect_readable(const DataSet& set, const fs::path& folder, const fs::path& incoming,
                     ThreadPool& threads) {
  const std::array<fs::path, 2> folders = {incoming, folder};
  const std::optional<FoundFiles> found = find_files(set, folders);
  if (!found) {
    throw Error(ErrorKind::kInput,
                fmt::format("expected {}; some are missing from the download", expected_text(set)));
  }
  if (set.kind == DataKind::kSamples) {
    static_cast<void>(set.read_samples(*found, threads));
  } else {
    static_cast<void>(set.read_ratings(*found, threads));
  }
}

// Runs a step. If it finds wrong data, deletes these files and says so in the error.
template <class Step>
void discard_if_wrong(const DataSet& set, const fs::path& folder,
                      const std::vector<fs::path>& files, Step&& step) {
  try {
    step();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) {
      throw;
    }
    for (const fs::path& file : files) {
      remove_file(file);
    }
    throw Error(ErrorKind::kInput,
                fmt::format("data set {}: {}; the downloaded files were deleted\n{}", set.name,
                            error.what(), by_hand(set, folder)));
  }
}

}  // namespace

std::string file_checksum(const fs::path& path, const std::string& like) {
  const std::string kind = like.substr(0, like.find(':'));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  const EVP_MD* const digest = EVP_get_digestbyname(kind.c_str());
  if (digest == nullptr || EVP_DigestInit_ex(context.get(), digest, nullptr) != 1) {
    throw Error(ErrorKind::kSystem, fmt::format("checksum: expected sha256 or md5, got {}", kind));
  }
  const File file = open_file(path, "rb");
  std::vector<char> block(1 << 20);
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), file.get())) {
    EVP_DigestUpdate(context.get(), block.data(), count);
  }
  if (std::ferror(file.get()) != 0) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot read", path.string()));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), value.data(), &length);
  std::string text = kind + ":";
  for (unsigned i = 0; i < length; ++i) {
    text += fmt::format("{:02x}", value[i]);
  }
  return text;
}

void require_downloads(const DataSet& set, const fs::path& folder) {
  if (set.downloads.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("data set {}: a program cannot download it: {}\n{}",
                                               set.name, set.by_hand, by_hand(set, folder)));
  }
}

bool download(const DataSet& set, const fs::path& folder, ThreadPool& threads,
              const Report& report) {
  require_downloads(set, folder);
  Incoming incoming(folder);
  for (const Download& one : set.downloads) {
    const std::vector<ArchiveMember> files = missing(set, one, folder, incoming.path());
    if (files.empty()) {
      continue;
    }
    const fs::path part = incoming.part_of(one.url);
    if (!fetch(set, one.url, part, folder, report)) {
      return false;
    }
    std::vector<fs::path> fetched{part};
    for (const ArchiveMember& file : files) {
      fetched.push_back(incoming.path() / file.name);
    }
    discard_if_wrong(set, folder, fetched, [&] { take_files(one, files, part, incoming.path()); });
  }
  const std::vector<fs::path> fetched = waiting(set, incoming.path());
  if (fetched.empty()) {
    return true;
  }
  discard_if_wrong(set, folder, fetched,
                   [&] { expect_readable(set, folder, incoming.path(), threads); });
  for (const fs::path& file : fetched) {
    sync_to_disk(file);
    move_file(file, folder / file.filename());
  }
  sync_to_disk(folder);
  return true;
}

}  // namespace mcnb
