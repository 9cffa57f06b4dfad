#include "mcnb/data/formats/name_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb::names_test {
namespace {

TEST(WholeNumber, IsReadOnlyWhereTheTextCanBeMadeFromItAgain) {
  for (const std::string text : {"0", "7", "10", "999", "1193", "12345", "123456", "7654321",
                                 "12345678", "123456789", "999999999999999999"}) {
    EXPECT_EQ(std::to_string(whole_number(text)), text);
  }
  for (const std::string text :
       {"", "00", "01", "-1", "+1", "1.0", " 1", "1 ", "a", "1a", "12:4", "1234/678", "1234567x",
        "1234567890123456789", "99999999999999999999", "\xb1\xb2\xb3"}) {
    EXPECT_EQ(whole_number(text), kNoWholeNumber) << text;
  }
}

TEST(WholeNumber, EveryByteInEveryPlaceIsTakenForWhatItIs) {
  for (std::size_t length = 1; length <= 9; ++length) {
    for (std::size_t position = 0; position < length; ++position) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text(length, '5');
        text[position] = static_cast<char>(byte);
        const bool digit = byte >= '0' && byte <= '9';
        const bool expected = digit && !(byte == '0' && position == 0 && length > 1);
        ASSERT_EQ(whole_number(text), expected ? std::stoull(text) : kNoWholeNumber)
            << length << " " << position << " " << byte;
      }
    }
  }
}

TEST(NameList, GivesBackEveryText) {
  const std::vector<std::string> texts = {
      "0",        "007", "B000K2PJ4K",           "4294967296",
      "\xc3\xa9", "1e3", std::string("a\0b", 3), std::string(5000, 'x')};
  NameList names;
  for (const std::string& text : texts) {
    names.add(text);
  }
  ASSERT_EQ(names.size(), texts.size());
  for (std::size_t k = 0; k < texts.size(); ++k) {
    EXPECT_EQ(names.text(k), texts[k]);
  }
}

TEST(NameList, IsEqualIfItsTextsAre) {
  NameList a;
  NameList b;
  for (const char* name : {"17", "x"}) {
    a.add(name);
    b.add(name);
  }
  EXPECT_EQ(a, b);
  b.add("18");
  EXPECT_NE(a, b);
}

// Small and large whole numbers, with and without zeros in front, and texts.
std::string random_name(Rng& rng) {
  const std::uint64_t number = rng.below(3000);
  switch (rng.below(4)) {
    case 0:
      return std::to_string(number);
    case 1:
      return std::to_string(number * 1000003);
    case 2:
      return "0" + std::to_string(number);
    default:
      return "user-" + std::to_string(number);
  }
}

TEST(NameTable, NumbersNamesAsAMapWould) {
  Rng rng(1, Stream::kTest);
  NameTable table;
  std::map<std::string, std::uint32_t> oracle;
  for (int i = 0; i < 20000; ++i) {
    const std::string name = random_name(rng);
    const auto known = oracle.find(name);
    EXPECT_EQ(table.find(NameTable::key(name)),
              known == oracle.end() ? NameTable::kNone : known->second);
    const std::uint32_t next = static_cast<std::uint32_t>(oracle.size());
    const std::uint32_t expected = oracle.try_emplace(name, next).first->second;
    ASSERT_EQ(table.add(NameTable::key(name)), expected);
  }
  ASSERT_EQ(table.size(), oracle.size());
  for (const auto& [name, number] : oracle) {
    EXPECT_EQ(table.names().text(number), name);
  }
}

TEST(NameTable, AddsAnotherTableInItsOrder) {
  Rng rng(2, Stream::kTest);
  NameTable whole;
  NameTable part;
  NameTable expected;
  for (int i = 0; i < 500; ++i) {
    const std::string name = random_name(rng);
    whole.add(NameTable::key(name));
    expected.add(NameTable::key(name));
  }
  for (int i = 0; i < 500; ++i) {
    part.add(NameTable::key(random_name(rng)));
  }
  const std::vector<std::uint32_t> numbers = whole.add_all(part);
  ASSERT_EQ(numbers.size(), part.size());
  for (std::size_t k = 0; k < part.size(); ++k) {
    EXPECT_EQ(expected.add(NameTable::key(part.names().text(k))), numbers[k]);
  }
  EXPECT_EQ(whole.names(), expected.names());
}

TEST(NameTable, IsAsNewOnceCleared) {
  NameTable table;
  for (const char* name : {"5", "x", "123456789012"}) {
    table.add(NameTable::key(name));
  }
  table.clear();
  EXPECT_EQ(table.size(), 0U);
  for (const char* name : {"5", "x", "123456789012"}) {
    EXPECT_EQ(table.find(NameTable::key(name)), NameTable::kNone);
  }
  EXPECT_EQ(table.add(NameTable::key("123456789012")), 0U);
  EXPECT_EQ(table.add(NameTable::key("x")), 1U);
  EXPECT_EQ(table.take_names().text(1), "x");
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace
}  // namespace mcnb::names_test
