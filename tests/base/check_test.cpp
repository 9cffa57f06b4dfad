#include "mcnb/base/check.h"

#include <gtest/gtest.h>

#include <csignal>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "mcnb/base/error.h"
#include "mcnb/base/ids.h"

namespace mcnb::check_test {
namespace {

TEST(Check, AClaimThatHoldsChangesNothing) {
  int evaluated = 0;
  check(++evaluated == 1, "the claim is evaluated");
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckDeathTest, ABrokenClaimAbortsAndNamesThePlace) {
  // The path starts at the repository root, whatever the build folder is.
  const std::string location = " tests/base/check_test.cpp:" + std::to_string(__LINE__ + 1);
  EXPECT_EXIT(check(false, "water is dry"), testing::KilledBySignal(SIGABRT),
              "mcnb: a bug:" + location + ": this should hold: water is dry");
}

TEST(CheckDeathTest, NoHandlerCanSwallowABug) {
  const auto bug_inside_a_handler = [] {
    try {
      check(false, "nothing is caught");
    } catch (...) {
    }
  };
  EXPECT_EXIT(bug_inside_a_handler(), testing::KilledBySignal(SIGABRT), "nothing is caught");
}

TEST(Error, KeepsItsKindAndMessage) {
  for (const ErrorKind kind : {ErrorKind::kUsage, ErrorKind::kInput, ErrorKind::kLimit,
                               ErrorKind::kSystem, ErrorKind::kCorrupt}) {
    const Error original(kind, "ratings.csv:17: expected 3 columns, found 2");
    const Error copy = original;
    EXPECT_EQ(copy.kind(), kind);
    EXPECT_STREQ(copy.what(), "ratings.csv:17: expected 3 columns, found 2");
  }
}

TEST(Error, WithinAContextKeepsItsKind) {
  const Error inner(ErrorKind::kUsage, "option alpha: expected a number");
  const Error outer = inner.within("policy club").within("plan.toml: line 3");
  EXPECT_EQ(outer.kind(), ErrorKind::kUsage);
  EXPECT_STREQ(outer.what(), "plan.toml: line 3: policy club: option alpha: expected a number");
}

TEST(Within, ReturnsWhatTheActionReturns) {
  const int answer = 42;
  EXPECT_EQ(&within("nowhere", [&]() -> const int& { return answer; }), &answer);
}

TEST(Within, AddsItsContextToErrorsAndLeavesOthersAlone) {
  try {
    within("policy club", [] { throw Error(ErrorKind::kLimit, "too many users"); });
    ADD_FAILURE() << "the error was swallowed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_STREQ(error.what(), "policy club: too many users");
  }
  EXPECT_THROW(within("policy club", [] { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST(Error, IsCaughtAsAStandardException) {
  try {
    throw Error(ErrorKind::kLimit, "too many users");
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "too many users");
    const auto* ours = dynamic_cast<const Error*>(&error);
    ASSERT_NE(ours, nullptr);
    EXPECT_EQ(ours->kind(), ErrorKind::kLimit);
  }
}

template <class Number>
concept Indexes = requires(Number number) {
  index(number);
};

TEST(Ids, AreTypesOfTheirOwn) {
  EXPECT_FALSE((std::is_convertible_v<UserId, ArmIndex>));
  EXPECT_FALSE((std::is_convertible_v<ItemId, UserId>));
  EXPECT_FALSE((std::is_convertible_v<int, UserId>));
  EXPECT_FALSE((std::is_convertible_v<UserId, int>));
  EXPECT_TRUE(Indexes<UserId>);
  EXPECT_FALSE(Indexes<int>);
}

TEST(Ids, IndexIsThePlainNumber) {
  constexpr auto kMost32 = std::numeric_limits<std::uint32_t>::max();
  constexpr auto kMost64 = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(index(UserId{0}), 0U);
  EXPECT_EQ(index(UserId{kMost32}), kMost32);
  EXPECT_EQ(index(ArmIndex{7}), 7U);
  EXPECT_EQ(index(ItemId{kMost32}), kMost32);
  EXPECT_EQ(index(RoundId{kMost64}), kMost64);
  static_assert(index(UserId{3}) == 3);
}

}  // namespace
}  // namespace mcnb::check_test
