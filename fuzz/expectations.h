#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/data/formats/input.h"
#include "mcnb/data/ratings.h"
#include "mcnb/data/samples.h"

namespace mcnb {

// Checks what must be true of everything that a reader returns, whatever its input was.
inline void expect_sound(const Ratings& ratings) {
  check(ratings.users.size() == ratings.size() && ratings.items.size() == ratings.size(),
        "the columns have one length");
  check(ratings.size() > 0, "no empty ratings are returned");
  const auto below = [](std::size_t count) {
    return [count](std::uint32_t number) { return number < count; };
  };
  check(std::ranges::all_of(ratings.users, below(ratings.user_count())), "users have names");
  check(std::ranges::all_of(ratings.items, below(ratings.item_count())), "items have names");
  check(std::ranges::all_of(ratings.values, [](float value) { return std::isfinite(value); }),
        "ratings are finite");
  for (std::size_t k = 0; k < ratings.user_count(); ++k) {
    check(!ratings.user_names.text(k).empty(), "names are not empty");
  }
}

inline void expect_sound(const Samples& samples) {
  check(samples.size() > 0 && samples.dimension > 0, "no empty samples are returned");
  check(samples.values.size() == samples.size() * samples.dimension, "every row is whole");
  check(std::ranges::all_of(samples.labels,
                            [&](std::uint16_t label) { return label < samples.class_count(); }),
        "labels name classes");
  check(std::ranges::all_of(samples.values, [](float value) { return std::isfinite(value); }),
        "values are finite");
}

inline Input fuzz_input(std::span<const std::uint8_t> bytes) {
  return Input::memory("fuzz", std::as_bytes(bytes));
}

inline ThreadPool& fuzz_threads() {
  static ThreadPool threads(1);
  return threads;
}

// The parent of folders with files that every input rewrites. It is in memory if the system has
// such a folder, because disks are slow.
inline std::filesystem::path quick_folder() {
  const std::filesystem::path in_memory = "/dev/shm";
  std::error_code ignored;
  return std::filesystem::is_directory(in_memory, ignored) ? in_memory
                                                           : std::filesystem::temp_directory_path();
}

// Reads the input. An Error that refuses the input is a valid outcome.
template <class Read>
void read_or_refuse(Read&& read) {
  try {
    expect_sound(read());
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::kInput, "bad input is called that");
    check(error.what()[0] != '\0', "a refusal says why");
  }
}

}  // namespace mcnb
