#include "bench/data.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "bench/limits.h"
#include "bench/report.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/random.h"
#include "mcnb/base/text_table.h"
#include "mcnb/data/formats/column_growth.h"
#include "mcnb/data/prepare/user_pool.h"
#include "mcnb/data/sets/catalogue.h"

namespace mcnb::bench {
namespace {

namespace fs = std::filesystem;

// The shape of MovieLens 25M: users, films, and roughly how unevenly the ratings are spread.
constexpr std::uint64_t kUsers = 162'541;
constexpr std::uint64_t kFilms = 59'047;
constexpr double kUserSpread = 1.2;  // deviation of the logarithm of a user's ratings
constexpr double kFilmSkew = 4.0;
constexpr std::size_t kPoolUsers = 50;
constexpr std::size_t kFlush = 1U << 20;
constexpr double kRepeatSeconds = 2.0;  // the first run is slower, because its memory is fresh

class OutputFile {
 public:
  explicit OutputFile(const fs::path& path) : path_(path), file_(path, std::ios::binary) {}
  std::string& text() { return text_; }
  void flush_if_long() {
    if (text_.size() >= kFlush) {
      flush();
    }
  }
  void flush() {
    file_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
    if (!file_.flush()) {
      throw Error(ErrorKind::kSystem, fmt::format("{}: cannot write", path_.string()));
    }
  }

 private:
  fs::path path_;
  std::ofstream file_;
  std::string text_;
};

void write_ratings(const fs::path& path, std::uint64_t rows) {
  OutputFile file(path);
  file.text() = "userId,movieId,rating,timestamp\r\n";
  const double typical = std::log(static_cast<double>(rows) / static_cast<double>(kUsers)) -
                         0.5 * kUserSpread * kUserSpread;
  std::vector<std::uint64_t> films;
  for (std::uint64_t user = 1; rows > 0; ++user) {
    Rng rng(1, Stream::kTest, user);
    const double wanted = std::exp(typical + kUserSpread * rng.normal());
    films.resize(static_cast<std::size_t>(std::clamp(wanted, 20.0, 30'000.0)));
    for (std::uint64_t& film : films) {
      film = 1 + static_cast<std::uint64_t>(static_cast<double>(kFilms) *
                                            std::pow(rng.uniform(), kFilmSkew));
    }
    std::ranges::sort(films);
    films.erase(std::ranges::unique(films).begin(), films.end());
    for (const std::uint64_t film : films) {
      if (rows == 0) {
        break;
      }
      --rows;
      const std::uint64_t stars = 1 + rng.below(10);
      fmt::format_to(std::back_inserter(file.text()), "{},{},{}.{},{}\r\n", user, film, stars / 2,
                     stars % 2 * 5, 1'100'000'000 + rng.below(400'000'000));
      file.flush_if_long();
    }
  }
  file.flush();
}

void append_big_endian(std::string& text, std::uint64_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += static_cast<char>(value >> shift & 0xffU);
  }
}

void append_bytes(OutputFile& file, std::uint64_t count, std::uint64_t below, Rng& rng) {
  for (std::uint64_t i = 0; i < count; ++i) {
    file.text() += static_cast<char>(rng.below(below));
    file.flush_if_long();
  }
}

void write_pictures(const fs::path& folder, std::uint64_t pictures) {
  Rng rng(2, Stream::kTest);
  OutputFile images(folder / "train-images-idx3-ubyte");
  append_big_endian(images.text(), 0x803);
  for (const std::uint64_t side : {pictures, std::uint64_t{28}, std::uint64_t{28}}) {
    append_big_endian(images.text(), side);
  }
  append_bytes(images, pictures * 28 * 28, 256, rng);
  images.flush();
  OutputFile labels(folder / "train-labels-idx1-ubyte");
  append_big_endian(labels.text(), 0x801);
  append_big_endian(labels.text(), pictures);
  append_bytes(labels, pictures, 10, rng);
  labels.flush();
}

void write_batches(const fs::path& folder, std::uint64_t pictures) {
  OutputFile names(folder / "batches.meta.txt");
  for (char name = 'a'; name < 'a' + 10; ++name) {
    names.text() += std::string(1, name) + "\n";
  }
  names.flush();
  Rng rng(3, Stream::kTest);
  for (int batch = 1; batch <= 5; ++batch) {
    OutputFile file(folder / fmt::format("data_batch_{}.bin", batch));
    for (std::uint64_t i = 0; i < pictures / 6; ++i) {
      append_bytes(file, 1, 10, rng);
      append_bytes(file, 3072, 256, rng);
    }
    file.flush();
  }
}

// Reads a file once and ignores its contents; bypasses the page cache if the file system can.
std::uint64_t read_from_disk(const fs::path& path) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (file < 0) {
    file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(4096, kBlock),
                                                           &std::free);
  std::uint64_t bytes = 0;
  ssize_t got = 0;
  while (file >= 0 && (got = ::read(file, buffer.get(), kBlock)) > 0) {
    bytes += static_cast<std::uint64_t>(got);
  }
  ::close(file);
  return bytes;
}

void count_lines_by_wc(const fs::path& path) {
  std::string program = "wc";
  std::string flag = "-l";
  std::string name = path.string();
  char* arguments[] = {program.data(), flag.data(), name.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int status = 1;
  const int failed = ::posix_spawnp(&child, "wc", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    throw Error(ErrorKind::kSystem, "wc -l cannot be run");
  }
}

// The folder that holds the generated files. The destructor removes it.
class Scratch {
 public:
  explicit Scratch(fs::path folder) : folder_(std::move(folder)) {}
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  fs::path make(const std::string& name) const {
    fs::create_directories(folder_ / name);
    return folder_ / name;
  }
  FoundFiles find(const std::string& name) const {
    const std::vector<fs::path> roots{folder_};
    return require_files(find_data_set(name), roots);
  }

 private:
  fs::path folder_;
};

class Rows {
 public:
  Rows() : table_({"what", "seconds", "MB/s", "beside", "seconds beside", "ratio"}) {}
  void add(const std::string& what, double seconds, std::uint64_t bytes, const std::string& beside,
           double other) {
    table_.add_row(
        {what, fmt::format("{:.3f}", seconds),
         bytes == 0 ? "-" : fmt::format("{:.0f}", static_cast<double>(bytes) / 1e6 / seconds),
         beside, beside.empty() ? "" : fmt::format("{:.3f}", other),
         beside.empty() ? "" : fmt::format("{:.2f}", seconds / other)});
  }
  const TextTable& table() const { return table_; }

 private:
  TextTable table_;
};

void time_ratings(const Scratch& scratch, std::uint64_t rows, ThreadPool& threads, Rows& out) {
  const fs::path path = scratch.make("movielens") / "ratings.csv";
  fmt::print(stderr, "writing {} ratings\n", rows);
  write_ratings(path, rows);
  const std::uint64_t bytes = fs::file_size(path);
  const double lines = shortest(kRepeatSeconds, [&] { count_lines_by_wc(path); });
  const DataSet& set = find_data_set("movielens");
  const FoundFiles files = scratch.find("movielens");
  Ratings ratings;
  fmt::print(stderr, "reading them\n");
  const double reading =
      shortest(kRepeatSeconds, [&] { ratings = set.read_ratings(files, threads); });
  out.add(fmt::format("ratings.csv, {} rows", rows), reading, bytes, "wc -l", lines);
  fmt::print(stderr, "preparing them\n");
  double begin = now_seconds();
  const RecommendationData data = prepare_recommendation(ratings, {}, threads);
  const double preparing = now_seconds() - begin;
  out.add("reduction and singular vectors", preparing, 0, "", 0.0);
  begin = now_seconds();
  make_user_pool(data, kPoolUsers, 1, threads);
  const double pooling = now_seconds() - begin;
  out.add("k-means", pooling, 0, "", 0.0);
  out.add("all together", reading + preparing + pooling, 0, "the limit of", 90.0);
  fmt::print(stderr, "most memory so far: {}\n", gibibytes(peak_memory()));
}

void time_samples(const Scratch& scratch, const std::string& name, ThreadPool& threads, Rows& out) {
  const DataSet& set = find_data_set(name);
  const FoundFiles files = scratch.find(name);
  std::uint64_t bytes = 0;
  const auto read_all = [&] {
    bytes = 0;
    for (const auto& entry : fs::directory_iterator(files.folder)) {
      bytes += read_from_disk(entry.path());
    }
  };
  // The reader writes floats into fresh memory, so the limit includes touching that memory.
  const double disk = shortest(kRepeatSeconds, read_all);
  const double memory = shortest(kRepeatSeconds, [&] {
    const auto floats = std::make_unique_for_overwrite<char[]>(sizeof(float) * bytes);
    prefer_large_pages(floats.get(), sizeof(float) * bytes);
    std::memset(floats.get(), 1, sizeof(float) * bytes);
  });
  const double reading = shortest(kRepeatSeconds, [&] { set.read_samples(files, threads); });
  out.add(name + "'s format, plain", reading, bytes, "disk, new memory", disk + memory);
}

}  // namespace

void bench_data(const DataBenchOptions& options, Display& display) {
  require_within("--rows", options.rows, 10'000, 1'000'000'000);
  require_within("--pictures", options.pictures, 60, 10'000'000);
  make_output_folder(options.output);
  const Scratch scratch(fs::path(options.output) / "files");
  ThreadPool threads(options.threads);
  Rows rows;
  time_ratings(scratch, options.rows, threads, rows);
  const std::size_t peak = peak_memory();
  write_pictures(scratch.make("mnist"), options.pictures);
  time_samples(scratch, "mnist", threads, rows);
  write_batches(scratch.make("cifar10"), options.pictures);
  time_samples(scratch, "cifar10", threads, rows);
  write_file(fs::path(options.output) / "bench-data.csv", rows.table().csv());
  display.show("data", rows.table(), rows.table());
  display.say(fmt::format("\n{} threads; most memory while ratings were read and prepared: {}\n",
                          threads.thread_count(), gibibytes(peak)));
}

}  // namespace mcnb::bench
