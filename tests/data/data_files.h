#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <png.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/input.h"

// Input files made in memory, and helpers for the tests of readers.
namespace mcnb {

inline Input text_input(std::string_view text, std::string name = "file") {
  return Input::memory(std::move(name), std::as_bytes(std::span(text)));
}

inline std::string gzipped(std::string_view text) {
  ::z_stream state{};
  EXPECT_EQ(::deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bytes(::deflateBound(&state, text.size()) + 64, '\0');
  std::string copy(text);
  state.next_in = reinterpret_cast<Bytef*>(copy.data());
  state.avail_in = static_cast<uInt>(copy.size());
  state.next_out = reinterpret_cast<Bytef*>(bytes.data());
  state.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(::deflate(&state, Z_FINISH), Z_STREAM_END);
  bytes.resize(bytes.size() - state.avail_out);
  ::deflateEnd(&state);
  return bytes;
}

inline std::string png_of(std::span<const std::uint8_t> pixels, std::uint32_t width) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = static_cast<std::uint32_t>(pixels.size()) / width;
  image.format = PNG_FORMAT_GRAY;
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr), 0);
  std::string bytes(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr),
            0);
  bytes.resize(size);
  return bytes;
}

using NamedFiles = std::vector<std::pair<std::string, std::string>>;

inline std::string tar_of(const NamedFiles& files) {
  ::archive* const tar = ::archive_write_new();
  ::archive_write_set_format_ustar(tar);
  std::size_t room = 1 << 16;
  for (const auto& [path, contents] : files) {
    room += contents.size() + 4096;
  }
  std::string bytes(room, '\0');
  std::size_t size = 0;
  EXPECT_EQ(::archive_write_open_memory(tar, bytes.data(), bytes.size(), &size), ARCHIVE_OK);
  for (const auto& [path, contents] : files) {
    ::archive_entry* const entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, path.c_str());
    ::archive_entry_set_size(entry, static_cast<::la_int64_t>(contents.size()));
    ::archive_entry_set_filetype(entry, AE_IFREG);
    ::archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(::archive_write_header(tar, entry), ARCHIVE_OK);
    ::archive_write_data(tar, contents.data(), contents.size());
    ::archive_entry_free(entry);
  }
  ::archive_write_close(tar);
  ::archive_write_free(tar);
  bytes.resize(size);
  return bytes;
}

// Encodes a number as `size` bytes, the most significant byte first.
inline std::string big_endian(std::uint64_t number, std::size_t size = 4) {
  std::string bytes;
  for (std::size_t i = size; i-- > 0;) {
    bytes += static_cast<char>(number >> (8 * i));
  }
  return bytes;
}

// Returns the message of the Error (kInput) that `read` must throw.
template <class Read>
std::string refusal(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "it was read";
  return {};
}

// The folder of real data sets, if it exists: $MCNB_DATA, or shared/data beside the repository.
inline std::optional<std::filesystem::path> real_data() {
  const char* const chosen = std::getenv("MCNB_DATA");
  const std::filesystem::path folder =
      chosen != nullptr ? std::filesystem::path(chosen)
                        : std::filesystem::path(MCNB_SOURCE_DIR) / ".." / "shared" / "data";
  return std::filesystem::is_directory(folder) ? std::optional(folder) : std::nullopt;
}

#define MCNB_NEED_REAL_DATA(folder)                                              \
  if (!mcnb::real_data()) {                                                      \
    GTEST_SKIP() << "no real data: neither in $MCNB_DATA nor in ../shared/data"; \
  }                                                                              \
  const std::filesystem::path folder = *mcnb::real_data()

}  // namespace mcnb
