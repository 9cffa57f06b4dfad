#include "mcnb/data/download.h"

#include <archive.h>
#include <archive_entry.h>
#include <curl/curl.h>
#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

constexpr long kSecondsToConnect = 20;
constexpr long kSlowest = 100;  // bytes a second, below which for a minute we give up
constexpr long kSecondsOfSlowness = 60;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File open(const fs::path& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode), std::fclose);
  if (file == nullptr) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot open: {}", path.string(),
                                                std::generic_category().message(errno)));
  }
  return file;
}

void move_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot write: {}", to.string(), error.message()));
  }
}

// The way out when a program cannot do it.
std::string by_hand(const DataSet& set, const fs::path& folder) {
  return fmt::format("by hand: fetch it from {} and put it into {}", set.home, folder.string());
}

// One transfer, as the callbacks see it.
struct Transfer {
  const std::function<bool(const DownloadProgress&)>& report;
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

// Appends what is missing of the url to the part. Returns false where it was stopped.
bool fetch(const DataSet& set, const std::string& url, const fs::path& part, const fs::path& folder,
           const std::function<bool(const DownloadProgress&)>& report) {
  std::error_code error;
  const std::uintmax_t already = fs::exists(part, error) ? fs::file_size(part, error) : 0;
  const File file = open(part, "ab");
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
    return false;
  }
  constexpr long kNothingBehind = 416;  // the part is whole already
  if (code == CURLE_HTTP_RETURNED_ERROR && status == kNothingBehind && already > 0) {
    return true;
  }
  if (code != CURLE_OK) {
    const std::string why = message[0] != '\0' ? message.data() : curl_easy_strerror(code);
    throw Error(ErrorKind::kSystem, fmt::format("data set {}: cannot download {}: {}\n{}", set.name,
                                                url, why, by_hand(set, folder)));
  }
  if (std::fflush(file.get()) != 0) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot write", part.string()));
  }
  return true;
}

struct ArchiveCloser {
  void operator()(archive* open) const { archive_read_free(open); }
};
using OpenArchive = std::unique_ptr<archive, ArchiveCloser>;

[[noreturn]] void refuse_archive(const fs::path& path, archive* reader) {
  const char* why = archive_error_string(reader);
  throw Error(ErrorKind::kInput, fmt::format("{}: expected an archive: {}", path.string(),
                                             why == nullptr ? "damaged" : why));
}

// Writes the current member to a file. One that is compressed by itself (".Z") is decompressed.
void write_member(const fs::path& path, archive* reader, bool compressed, const fs::path& to) {
  std::string bytes;
  std::array<char, 1 << 16> block{};
  for (;;) {
    const auto count = archive_read_data(reader, block.data(), block.size());
    if (count < 0) {
      refuse_archive(path, reader);
    }
    if (count == 0) {
      break;
    }
    bytes.append(block.data(), static_cast<std::size_t>(count));
  }
  const fs::path part = to.string() + ".part";
  {
    const File file = open(part, "wb");
    if (compressed) {
      const OpenArchive inner(archive_read_new());
      archive_read_support_filter_all(inner.get());
      archive_read_support_format_raw(inner.get());
      archive_entry* entry = nullptr;
      if (archive_read_open_memory(inner.get(), bytes.data(), bytes.size()) != ARCHIVE_OK ||
          archive_read_next_header(inner.get(), &entry) != ARCHIVE_OK ||
          archive_read_data_into_fd(inner.get(), fileno(file.get())) != ARCHIVE_OK) {
        refuse_archive(path, inner.get());
      }
    } else if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) {
      throw Error(ErrorKind::kSystem, fmt::format("{}: cannot write", part.string()));
    }
  }
  move_file(part, to);
}

void unpack(const fs::path& path, const std::vector<std::string>& members, const fs::path& folder) {
  const OpenArchive reader(archive_read_new());
  archive_read_support_filter_all(reader.get());
  archive_read_support_format_all(reader.get());
  constexpr std::size_t kBlock = 1 << 16;
  if (archive_read_open_filename(reader.get(), path.c_str(), kBlock) != ARCHIVE_OK) {
    refuse_archive(path, reader.get());
  }
  std::vector<std::string> left = members;
  archive_entry* entry = nullptr;
  int result = ARCHIVE_OK;
  while (!left.empty() && (result = archive_read_next_header(reader.get(), &entry)) == ARCHIVE_OK) {
    const std::string name = fs::path(archive_entry_pathname(entry)).filename().string();
    for (const bool compressed : {false, true}) {
      const auto found = std::ranges::find_if(left, [&](const std::string& member) {
        return name == member + (compressed ? ".Z" : "");
      });
      if (found != left.end()) {
        write_member(path, reader.get(), compressed, folder / *found);
        left.erase(found);
        break;
      }
    }
  }
  if (result != ARCHIVE_OK && result != ARCHIVE_EOF) {
    refuse_archive(path, reader.get());
  }
  if (!left.empty()) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected {} in the archive", path.string(), left.front()));
  }
}

bool all_there(const Download& one, const fs::path& folder) {
  const auto there = [&](const std::string& name) { return fs::exists(folder / name); };
  if (!one.file.empty()) {
    return there(one.file) &&
           (one.checksum.empty() || file_checksum(folder / one.file, one.checksum) == one.checksum);
  }
  return std::ranges::all_of(one.members, there);
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
  const File file = open(path, "rb");
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

bool download(const DataSet& set, const fs::path& folder,
              const std::function<bool(const DownloadProgress&)>& report) {
  if (set.downloads.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("data set {}: a program cannot fetch it: {}\n{}",
                                               set.name, set.by_hand, by_hand(set, folder)));
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot make the folder: {}", folder.string(), error.message()));
  }
  for (const Download& one : set.downloads) {
    if (all_there(one, folder)) {
      continue;
    }
    const fs::path part = folder / (fs::path(one.url).filename().string() + ".part");
    if (!fetch(set, one.url, part, folder, report)) {
      return false;
    }
    if (!one.checksum.empty()) {
      const std::string found = file_checksum(part, one.checksum);
      if (found != one.checksum) {
        fs::remove(part, error);
        throw Error(ErrorKind::kInput,
                    fmt::format("data set {}: {}: expected {}, what came has {}; it was thrown "
                                "away\n{}",
                                set.name, one.url, one.checksum, found, by_hand(set, folder)));
      }
    }
    if (one.file.empty()) {
      unpack(part, one.members, folder);
      fs::remove(part, error);
    } else {
      move_file(part, folder / one.file);
    }
  }
  return true;
}

}  // namespace mcnb
