#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/picture.h"
#include "mcnb/data/formats/samples_readers.h"
#include "mcnb/data/formats/tar_reader.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSide = 28;
constexpr std::size_t kPixels = std::size_t{kSide} * kSide;
constexpr std::size_t kLargestFile = std::size_t{1} << 20;
constexpr std::size_t kBatch = 1024;  // pictures taken from an archive before they are decoded
constexpr std::size_t kGrain = 16;
constexpr std::string_view kOtherFiles = "files that are no PNG in a folder A to J";

// A picture of the set, named by its path ("notMNIST_small/A/x.png").
struct Letter {
  std::size_t number = 0;  // of the class
  fs::path path;
  std::vector<std::uint8_t> file;  // until it is decoded
  Picture picture;
};

// The class of a PNG file, from the letter that its folder is named after.
std::optional<std::size_t> class_of(const fs::path& path) {
  const std::string folder = path.parent_path().filename().string();
  const std::string file = path.filename().string();
  const std::size_t number =
      folder.size() == 1 ? kNotMnistLetters.find(folder[0]) : std::string_view::npos;
  // Some systems add files to archives whose names start with a dot.
  if (number == std::string_view::npos || path.extension() != ".png" || file.starts_with('.')) {
    return std::nullopt;
  }
  return number;
}

void decode(std::span<Letter> letters, ThreadPool& threads) {
  threads.parallel_for(letters.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      letters[k].picture = decode_png(letters[k].file, kSide, kSide);
      letters[k].file = {};
    }
  });
}

// Sorts by letter and name, so that the order of the files does not matter.
Samples samples_of(std::vector<Letter> letters, const std::string& name, ReadReport others) {
  std::ranges::sort(letters, [](const Letter& a, const Letter& b) {
    return std::forward_as_tuple(a.number, a.path.filename(), a.path) <
           std::forward_as_tuple(b.number, b.path.filename(), b.path);
  });
  Samples samples;
  samples.dimension = kPixels;
  for (const char letter : kNotMnistLetters) {
    samples.class_names.emplace_back(1, letter);
  }
  samples.values.reserve(letters.size() * kPixels);
  samples.labels.reserve(letters.size());
  for (Letter& letter : letters) {
    if (!letter.picture.fault.empty()) {
      samples.report.skip("unreadable pictures",
                          fmt::format("{}: {}", letter.path.string(), letter.picture.fault));
      continue;
    }
    samples.values.insert(samples.values.end(), letter.picture.pixels.begin(),
                          letter.picture.pixels.end());
    samples.labels.push_back(static_cast<std::uint16_t>(letter.number));
    letter = {};
  }
  samples.report.add(others);
  samples.report.rows = samples.size();
  if (samples.size() == 0) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected folders A to J of PNG pictures, {} x {}, found {}", name,
                            kSide, kSide, letters.empty() ? "none" : "none that can be read"));
  }
  return samples;
}

std::vector<std::uint8_t> read_small_file(const fs::path& path) {
  constexpr std::size_t kStep = 4096;
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> bytes;
  while (file.good() && bytes.size() <= kLargestFile) {
    const std::size_t old = bytes.size();
    bytes.resize(old + kStep);
    file.read(reinterpret_cast<char*>(bytes.data() + old), kStep);
    bytes.resize(old + static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() && bytes.size() <= kLargestFile) {
    throw Error(ErrorKind::kSystem, path.string() + ": cannot read");
  }
  return bytes;
}

Samples read_folder(const fs::path& folder, ThreadPool& threads) {
  std::vector<Letter> letters;
  ReadReport others;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) {
      continue;
    }
    if (const auto number = class_of(entry.path())) {
      letters.push_back({*number, entry.path(), {}, {}});
    } else {
      others.skip(kOtherFiles, entry.path().string());
    }
  }
  threads.parallel_for(letters.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      letters[k].picture = decode_png(read_small_file(letters[k].path), kSide, kSide);
    }
  });
  return samples_of(std::move(letters), folder.string(), others);
}

}  // namespace

Samples read_notmnist_archive(const Input& archive, ThreadPool& threads) {
  TarReader tar(archive);
  std::vector<Letter> letters;
  ReadReport others;
  std::size_t decoded = 0;
  const auto decode_new = [&] {
    decode(std::span(letters).subspan(decoded), threads);
    decoded = letters.size();
  };
  while (const std::optional<std::string> path = tar.next()) {
    if (const auto number = class_of(*path)) {
      letters.push_back({*number, *path, tar.contents(kLargestFile), {}});
    } else {
      others.skip(kOtherFiles, *path);
    }
    if (letters.size() == decoded + kBatch) {
      decode_new();
    }
  }
  decode_new();
  return samples_of(std::move(letters), archive.name(), others);
}

Samples read_notmnist(const std::filesystem::path& folder_or_archive, ThreadPool& threads) {
  std::error_code ignored;
  if (!fs::is_directory(folder_or_archive, ignored)) {
    return read_notmnist_archive(Input::file(folder_or_archive), threads);
  }
  try {
    return read_folder(folder_or_archive, threads);
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot read: {}", folder_or_archive.string(),
                                                error.code().message()));
  }
}

}  // namespace mcnb
