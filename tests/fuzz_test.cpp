// Replays the corpus of every fuzz target, and changed copies of it. The targets themselves check
// that what is returned is sound and that everything else is refused; libFuzzer runs them for
// longer (fuzz/README.md).

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "mcnb/base/random.h"
#include "tests/sanitizers.h"

using FuzzTarget = int(const std::uint8_t* data, std::size_t size);

extern "C" {
FuzzTarget fuzz_cifar10;
FuzzTarget fuzz_delimited_ratings;
FuzzTarget fuzz_edge_list;
FuzzTarget fuzz_idx;
FuzzTarget fuzz_json_ratings;
FuzzTarget fuzz_labelled_text;
FuzzTarget fuzz_logs;
FuzzTarget fuzz_notmnist;
FuzzTarget fuzz_npy;
FuzzTarget fuzz_picture;
FuzzTarget fuzz_prepared;
FuzzTarget fuzz_serve_event;
FuzzTarget fuzz_serve_http;
FuzzTarget fuzz_serve_request;
FuzzTarget fuzz_serve_response;
FuzzTarget fuzz_serve_snapshot;
FuzzTarget fuzz_unpack;
}

namespace {

namespace fs = std::filesystem;

struct NamedTarget {
  std::string name;
  FuzzTarget* run;
};

void PrintTo(const NamedTarget& target, std::ostream* out) { *out << target.name; }

const std::vector<NamedTarget> kTargets = {{"cifar10", fuzz_cifar10},
                                           {"delimited_ratings", fuzz_delimited_ratings},
                                           {"edge_list", fuzz_edge_list},
                                           {"idx", fuzz_idx},
                                           {"json_ratings", fuzz_json_ratings},
                                           {"labelled_text", fuzz_labelled_text},
                                           {"logs", fuzz_logs},
                                           {"notmnist", fuzz_notmnist},
                                           {"npy", fuzz_npy},
                                           {"picture", fuzz_picture},
                                           {"prepared", fuzz_prepared},
                                           {"serve_event", fuzz_serve_event},
                                           {"serve_http", fuzz_serve_http},
                                           {"serve_request", fuzz_serve_request},
                                           {"serve_response", fuzz_serve_response},
                                           {"serve_snapshot", fuzz_serve_snapshot},
                                           {"unpack", fuzz_unpack}};

const fs::path kFuzz = fs::path(MCNB_SOURCE_DIR) / "fuzz";

using Bytes = std::vector<std::uint8_t>;

Bytes read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Bytes> seeds_of(const std::string& target) {
  std::set<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(kFuzz / "corpus" / target)) {
    paths.insert(entry.path());
  }
  std::vector<Bytes> seeds;
  for (const fs::path& path : paths) {
    seeds.push_back(read(path));
  }
  return seeds;
}

// Copies the bytes to a buffer of exact size, so that the address sanitizer sees reads beyond it.
void run(const NamedTarget& target, const Bytes& bytes) {
  const Bytes exact(bytes.begin(), bytes.end());
  EXPECT_EQ(target.run(exact.data(), exact.size()), 0);
}

class Fuzz : public testing::TestWithParam<NamedTarget> {};

TEST_P(Fuzz, SeedsAreReadOrRefused) {
  const std::vector<Bytes> seeds = seeds_of(GetParam().name);
  ASSERT_FALSE(seeds.empty());
  run(GetParam(), {});
  for (const Bytes& seed : seeds) {
    run(GetParam(), seed);
  }
}

TEST_P(Fuzz, ShortenedSeedsAreReadOrRefused) {
  constexpr std::size_t kCuts = mcnb::kThreadSanitized ? 8 : 48;
  for (const Bytes& seed : seeds_of(GetParam().name)) {
    for (std::size_t cut = 0; cut < kCuts; ++cut) {
      const auto length = static_cast<std::ptrdiff_t>(seed.size() * cut / kCuts);
      run(GetParam(), {seed.begin(), seed.begin() + length});
    }
  }
}

// Changes one to four bytes: to any value, by one bit, or to a byte with a meaning in some format.
TEST_P(Fuzz, DamagedSeedsAreReadOrRefused) {
  constexpr std::uint64_t kChanges = mcnb::kThreadSanitized ? 60 : 600;
  constexpr std::array<std::uint8_t, 8> kSpecial = {0x00, 0xff, 0x7f, 0x80, '\n', ',', '"', '-'};
  const std::vector<Bytes> seeds = seeds_of(GetParam().name);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    for (std::uint64_t change = 0; change < kChanges; ++change) {
      mcnb::Rng rng(1, mcnb::Stream::kTest, change, static_cast<std::uint32_t>(i));
      Bytes bytes = seeds[i];
      for (std::uint64_t left = 1 + rng.below(4); left > 0; --left) {
        std::uint8_t& byte = bytes[rng.below(bytes.size())];
        switch (rng.below(3)) {
          case 0:
            byte = static_cast<std::uint8_t>(rng.below(256));
            break;
          case 1:
            byte = static_cast<std::uint8_t>(byte ^ (1U << rng.below(8)));
            break;
          default:
            byte = kSpecial[rng.below(kSpecial.size())];
        }
      }
      run(GetParam(), bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(kTargets),
                         [](const auto& target) { return target.param.name; });

TEST(FuzzTargets, EveryFileIsATargetOfTheseTests) {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(kFuzz)) {
    if (entry.path().extension() == ".cpp") {
      files.insert(entry.path().stem().string());
    }
  }
  std::set<std::string> targets;
  for (const NamedTarget& target : kTargets) {
    targets.insert(target.name);
  }
  EXPECT_EQ(files, targets);
}

}  // namespace
