#include "mcnb/data/prepare/provenance.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <chrono>
#include <fstream>
#include <memory>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostSources = 100'000;
constexpr std::uint64_t kLongestText = 100'000;
constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::min();
constexpr std::size_t kChunk = std::size_t{1} << 20;

std::uint64_t length_of(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t length = fs::file_size(path, error);
  if (error) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: {}", path.string(), error.message()));
  }
  return length;
}

// When the file was changed last, in nanoseconds; kUnknown if that was just now, since a second
// change may have the same time.
std::int64_t time_of_change(const fs::path& path) {
  using std::chrono::nanoseconds;
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  if (error || fs::file_time_type::clock::now() - time < std::chrono::seconds(2)) {
    return kUnknown;
  }
  return std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

std::uint64_t content_checksum(const fs::path& path) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  if (state == nullptr) {
    throw std::bad_alloc();
  }
  XXH3_64bits_reset(state.get());
  std::ifstream file(path, std::ios::binary);
  std::vector<char> chunk(kChunk);
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    XXH3_64bits_update(state.get(), chunk.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() || file.bad()) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot read", path.string()));
  }
  return XXH3_64bits_digest(state.get());
}

void write_provenance(StateWriter& writer, const Provenance& made_from) {
  writer.write_string(made_from.preparation);
  writer.write(static_cast<std::uint64_t>(made_from.sources.size()));
  for (const fs::path& source : made_from.sources) {
    writer.write_string(source.filename().string());
    writer.write(length_of(source));
    writer.write(time_of_change(source));
    writer.write(content_checksum(source));
  }
}

void check_provenance(StateReader& reader, const Provenance& made_from) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", reader.name(), why));
  };
  const std::string preparation = reader.read_string(kLongestText);
  if (preparation != made_from.preparation) {
    refuse(fmt::format("made with \"{}\", expected \"{}\"", preparation, made_from.preparation));
  }
  const auto sources = reader.read<std::uint64_t>();
  if (sources > kMostSources) {
    reader.fail("it has too many sources");
  }
  if (sources != made_from.sources.size()) {
    refuse(fmt::format("made from {} files, expected {}", sources, made_from.sources.size()));
  }
  for (const fs::path& source : made_from.sources) {
    const std::string name = reader.read_string(kLongestText);
    const auto length = reader.read<std::uint64_t>();
    const auto time = reader.read<std::int64_t>();
    const auto checksum = reader.read<std::uint64_t>();
    if (name != source.filename().string()) {
      refuse(fmt::format("made from {}, expected {}", name, source.filename().string()));
    }
    const bool same_time = time != kUnknown && time == time_of_change(source);
    if (length != length_of(source) || (!same_time && checksum != content_checksum(source))) {
      refuse(fmt::format("{} has changed since", source.string()));
    }
  }
}

}  // namespace mcnb
