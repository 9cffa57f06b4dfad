#include "mcnb/base/option_codec.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "mcnb/base/error.h"
#include "mcnb/base/state_file.h"

namespace mcnb::option_codec_test {
namespace {

const StateHeader kHeader{"options", 1};

std::string saved(const OptionValues& values) {
  std::ostringstream out(std::ios::binary);
  StateWriter writer(out, "memory", kHeader);
  write_options(writer, values);
  writer.finish();
  return out.str();
}

OptionValues loaded(const std::string& bytes) {
  std::istringstream in(bytes, std::ios::binary);
  StateReader reader(in, "memory", kHeader);
  OptionValues values = read_options(reader);
  reader.finish();
  return values;
}

TEST(OptionCodec, ReadsBackWhatItWrote) {
  for (const OptionValues& values :
       {OptionValues{},
        OptionValues{{"alpha", "0.5"}, {"users", ""}, {"", std::string(3, '\0')}}}) {
    EXPECT_EQ(loaded(saved(values)), values);
  }
}

// Saved policies, bandits of Python and snapshots of the service hold these bytes.
TEST(OptionCodec, WritesACountAndThenNamesAndTexts) {
  std::ostringstream out(std::ios::binary);
  StateWriter writer(out, "memory", kHeader);
  writer.write(std::uint64_t{2});
  for (const std::string text : {"a", "1", "b", "22"}) {
    writer.write(std::uint64_t{text.size()});
    writer.write_bytes(text.data(), text.size());
  }
  writer.finish();
  EXPECT_EQ(saved({{"b", "22"}, {"a", "1"}}), out.str());
}

TEST(OptionCodec, RefusesMoreOptionsThanThereCanBe) {
  std::ostringstream out(std::ios::binary);
  StateWriter writer(out, "memory", kHeader);
  writer.write_count(std::size_t{1} << 40);
  writer.finish();
  try {
    loaded(out.str());
    ADD_FAILURE() << "the options were read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  }
}

}  // namespace
}  // namespace mcnb::option_codec_test
