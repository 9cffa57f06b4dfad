#include "mcnb/numeric/slab.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "mcnb/numeric/large_pages.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::slab_test {
namespace {

using plain::expect_error;

TEST(Slab, GrowsWithZerosAndKeepsWhatItHolds) {
  Slab slab;
  EXPECT_EQ(slab.size(), 0U);
  std::size_t size = 0;
  for (const std::size_t next : {1U, 1U, 1000U, 700'000U, 5'000'000U}) {
    slab.grow(next);
    ASSERT_EQ(slab.size(), next);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(slab.data()[i], static_cast<float>(i % 1000)) << next;
    }
    for (std::size_t i = size; i < next; ++i) {
      ASSERT_EQ(slab.data()[i], 0.0F) << next;
      slab.data()[i] = static_cast<float>(i % 1000);
    }
    size = next;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(slab.data()) % 64, 0U);
  }
}

TEST(Slab, CopiesAreIndependentAndMovesLeaveNothingBehind) {
  Slab slab;
  slab.grow(10);
  slab.data()[9] = 1.0F;
  Slab copy = slab;
  EXPECT_EQ(copy.size(), 10U);
  EXPECT_EQ(copy.data()[9], 1.0F);
  copy.data()[9] = 2.0F;
  EXPECT_EQ(slab.data()[9], 1.0F);
  const float* memory = slab.data();
  Slab moved = std::move(slab);
  EXPECT_EQ(moved.data(), memory);
  copy = std::move(moved);
  EXPECT_EQ(copy.data(), memory);
  EXPECT_EQ(copy.data()[9], 1.0F);
  copy = Slab();
  EXPECT_EQ(copy.size(), 0U);
  const Slab of_nothing = copy;
  EXPECT_EQ(of_nothing.data(), nullptr);
}

// Bytes of this process that lie in large pages.
std::uint64_t bytes_in_large_pages() {
  std::ifstream summary("/proc/self/smaps_rollup");
  for (std::string word; summary >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == "AnonHugePages:" && summary >> kilobytes) {
      return kilobytes << 10;
    }
  }
  return 0;
}

TEST(LargePages, ThatAForkSplitAreWholeAgainWithTheSameBytes) {
  constexpr std::size_t kFloats = std::size_t{16} << 20;  // 64 MiB
  Slab slab;
  slab.grow(kFloats);
  const auto value_at = [](std::size_t i) { return static_cast<float>(i % 1013); };
  for (std::size_t i = 0; i < kFloats; ++i) {
    slab.data()[i] = value_at(i);
  }
  const std::uint64_t before = bytes_in_large_pages();
  if (before < kFloats) {
    GTEST_SKIP() << "the system has no large pages to give";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  constexpr std::size_t kStep = std::size_t{1} << 19;  // floats of a large page
  for (std::size_t i = 5; i < kFloats; i += kStep) {
    slab.data()[i] = -1.0F;
  }
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_LT(bytes_in_large_pages(), before / 2);
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  if (::madvise(slab.data(), kStep * sizeof(float), kCollapse) != 0) {
    GTEST_SKIP() << "the system does not put pages together when asked (Linux before 6.1)";
  }
  restore_large_pages();
  EXPECT_GT(bytes_in_large_pages(), before / 2);
  for (std::size_t i = 0; i < kFloats; ++i) {
    ASSERT_EQ(slab.data()[i], i % kStep == 5 ? -1.0F : value_at(i)) << i;
  }
}

TEST(Slab, MoreThanTheMachineHasIsRefusedAndChangesNothing) {
  Slab slab;
  slab.grow(10);
  slab.data()[9] = 1.0F;
  for (const std::size_t size : {std::size_t{1} << 50, ~std::size_t{0} / sizeof(float),
                                 ~std::size_t{0} / sizeof(float) + 1, ~std::size_t{0}}) {
    expect_error(ErrorKind::kLimit, "this machine has", [&] { slab.grow(size); });
  }
  EXPECT_EQ(slab.size(), 10U);
  EXPECT_EQ(slab.data()[9], 1.0F);
}

TEST(SlabDeathTest, ShrinkingIsABug) {
  Slab slab;
  slab.grow(10);
  EXPECT_DEATH(slab.grow(9), "a slab only grows");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Runs in its own process, with the address space limited to half a gigabyte more than it uses.
[[noreturn]] void grow_where_the_system_refuses() {
  std::size_t pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%zu", &pages) != 1) {
    std::_Exit(2);
  }
  const rlim_t limit = pages * 4096 + (rlim_t{1} << 29);
  const rlimit limits{limit, limit};
  if (::setrlimit(RLIMIT_AS, &limits) != 0) {
    std::_Exit(3);
  }
  Slab slab;
  slab.grow(1000);
  slab.data()[999] = 1.0F;
  try {
    slab.grow(std::size_t{1} << 28);  // a gigabyte
  } catch (const Error& error) {
    const bool fine =
        error.kind() == ErrorKind::kLimit && slab.size() == 1000 && slab.data()[999] == 1.0F;
    std::_Exit(fine ? 0 : 4);
  }
  std::_Exit(5);
}

TEST(SlabDeathTest, WhereTheSystemRefusesIsALimitAndNothingIsLost) {
  EXPECT_EXIT(grow_where_the_system_refuses(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace mcnb::slab_test
