#include "mcnb/base/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "mcnb/base/error.h"

namespace mcnb::options_test {
namespace {

enum class Colour { kRed, kBlue };

struct Paint {
  double weight = 0.25;
  std::uint64_t layers = 2;
  bool glossy = false;
  Colour colour = Colour::kBlue;
};

struct Brush {
  std::optional<double> width;
  std::optional<bool> soft = true;
};

OptionTable<Paint> paint_options() {
  OptionTable<Paint> table;
  table.number("weight", &Paint::weight, {0.0, 1.0, true, true}, "of the paint")
      .count("layers", &Paint::layers, {1, 100}, "of paint")
      .yes_no("glossy", &Paint::glossy, "whether it shines")
      .choice("colour", &Paint::colour, {{"red", Colour::kRed}, {"blue", Colour::kBlue}},
              "of the paint");
  return table;
}

// Expects the option to be refused with its name, what was expected, and the text.
void expect_refused(const std::string& name, const std::string& text, const std::string& expected) {
  Paint paint;
  try {
    paint_options().set(paint, name, text);
    ADD_FAILURE() << name << "=" << text << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(std::string(error.what()),
              "option " + name + ": expected " + expected + ", got \"" + text + "\"");
  }
  EXPECT_EQ(paint_options().values(paint), paint_options().values({}));
}

TEST(Options, NumbersAreReadWhole) {
  const Range any{-1e300, 1e300};
  EXPECT_EQ(parse_number("a", any, "0.5"), 0.5);
  EXPECT_EQ(parse_number("a", any, "-3"), -3.0);
  EXPECT_EQ(parse_number("a", any, "1e-3"), 1e-3);
  EXPECT_EQ(parse_number("a", any, "1E5"), 1e5);
  EXPECT_EQ(parse_number("a", any, ".5"), 0.5);
}

TEST(Options, WhatIsNoNumberInTheRangeIsRefused) {
  for (const char* text : {"",      " ",  "x",      "0.5x", "0.5 ", " 0.5", "0,5",   "+0.5",
                           "--1",   "1e", "0x1p-2", "nan",  "-nan", "inf",  "-inf",  "infinity",
                           "1e400", "0",  "1",      "-0.1", "1.1",  "0.5=", "1e-999"}) {
    expect_refused("weight", text, "a number in (0, 1)");
  }
}

TEST(Options, CountsAreReadWhole) {
  const Range any{0, 1e20};
  EXPECT_EQ(parse_count("a", any, "0"), 0U);
  EXPECT_EQ(parse_count("a", any, "007"), 7U);
  EXPECT_EQ(parse_count("a", any, "18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
}

TEST(Options, WhatIsNoCountInTheRangeIsRefused) {
  for (const char* text :
       {"", " ", "x", "3x", "3 ", " 3", "+3", "-3", "-0", "3.0", "1e-1", "0", "101", "0x3", "nan",
        "inf", "18446744073709551616", "99999999999999999999999999"}) {
    expect_refused("layers", text, "a whole number in [1, 100]");
  }
}

TEST(Options, SwitchesAreYesOrNo) {
  for (const char* text : {"yes", "true", "1"}) {
    EXPECT_TRUE(parse_switch("a", text));
  }
  for (const char* text : {"no", "false", "0"}) {
    EXPECT_FALSE(parse_switch("a", text));
  }
  for (const char* text : {"", "y", "Yes", "on", "2", "yes "}) {
    expect_refused("glossy", text, "yes or no");
  }
}

TEST(Options, ANumberOrASwitchMayBeAuto) {
  const OptionTable<Brush> table =
      OptionTable<Brush>()
          .number_or_auto("width", &Brush::width, {0.0, 9.0}, "of the brush")
          .yes_no_or_auto("soft", &Brush::soft, "whether it is soft");
  Brush brush;
  EXPECT_EQ(table.values(brush), (OptionValues{{"width", "auto"}, {"soft", "yes"}}));
  table.set_all(brush, {{"width", "2.5"}, {"soft", "auto"}});
  EXPECT_EQ(brush.width, 2.5);
  EXPECT_EQ(brush.soft, std::nullopt);
  EXPECT_EQ(table.values(brush), (OptionValues{{"width", "2.5"}, {"soft", "auto"}}));
  EXPECT_THROW(table.set(brush, "width", "10"), Error);
  EXPECT_THROW(table.set(brush, "soft", "maybe"), Error);
}

TEST(Options, ChoicesAreOneOfTheNames) {
  for (const char* text : {"", "re", "redd", "Red", "red | blue", "0"}) {
    expect_refused("colour", text, "red | blue");
  }
}

TEST(Options, RangesHaveOpenAndClosedEnds) {
  const Range closed{0.0, 1.0};
  EXPECT_TRUE(closed.contains(0.0));
  EXPECT_TRUE(closed.contains(1.0));
  EXPECT_FALSE(closed.contains(std::nextafter(1.0, 2.0)));
  EXPECT_FALSE(closed.contains(std::nan("")));
  EXPECT_EQ(closed.text(), "[0, 1]");
  const Range half_open{0.0, 1.0, true, false};
  EXPECT_FALSE(half_open.contains(0.0));
  EXPECT_TRUE(half_open.contains(std::numeric_limits<double>::denorm_min()));
  EXPECT_TRUE(half_open.contains(1.0));
  EXPECT_EQ(half_open.text(), "(0, 1]");
  EXPECT_EQ((Range{-0.5, 2.0, false, true}.text()), "[-0.5, 2)");
}

TEST(Options, UnknownNamesAreRefusedWithThoseThereAre) {
  expect_refused("size", "size", "one of the options weight, layers, glossy, colour");
  Paint paint;
  EXPECT_THROW(paint_options().set(paint, "", "1"), Error);
}

TEST(Options, AreSetAllTogether) {
  Paint paint;
  paint_options().set_all(
      paint, {{"weight", "0.75"}, {"layers", "100"}, {"glossy", "yes"}, {"colour", "red"}});
  EXPECT_EQ(paint.weight, 0.75);
  EXPECT_EQ(paint.layers, 100U);
  EXPECT_TRUE(paint.glossy);
  EXPECT_EQ(paint.colour, Colour::kRed);
  EXPECT_THROW(paint_options().set_all(paint, {{"layers", "1"}, {"weight", "7"}}), Error);
}

TEST(Options, ValuesReadBackToTheSameBits) {
  for (const double weight : {0.1, 1.0 / 3.0, 1e-300, std::nextafter(1.0, 0.0)}) {
    const Paint paint{.weight = weight, .layers = 77, .glossy = true, .colour = Colour::kRed};
    Paint copy;
    paint_options().set_all(copy, paint_options().values(paint));
    EXPECT_EQ(copy.weight, weight);
    EXPECT_EQ(copy.layers, 77U);
    EXPECT_TRUE(copy.glossy);
    EXPECT_EQ(copy.colour, Colour::kRed);
  }
}

TEST(Options, ValidationFindsValuesThatWereNeverParsed) {
  EXPECT_NO_THROW(paint_options().validate({}));
  EXPECT_THROW(paint_options().validate({.weight = 1.0}), Error);
  EXPECT_THROW(paint_options().validate({.weight = std::nan("")}), Error);
  EXPECT_THROW(paint_options().validate({.layers = 0}), Error);
  EXPECT_THROW(paint_options().validate({.colour = Colour{7}}), Error);
}

TEST(Options, HelpNamesTheExpectedValuesAndTheDefault) {
  const std::vector<OptionHelp> help = paint_options().help();
  ASSERT_EQ(help.size(), 4U);
  EXPECT_EQ(help[0].name, "weight");
  EXPECT_EQ(help[0].help, "of the paint");
  EXPECT_EQ(help[0].expected, "a number in (0, 1)");
  EXPECT_EQ(help[0].standard, "0.25");
  EXPECT_EQ(help[1].standard, "2");
  EXPECT_EQ(help[2].standard, "no");
  EXPECT_EQ(help[3].expected, "red | blue");
  EXPECT_EQ(help[3].standard, "blue");
  EXPECT_EQ(paint_options().help({.layers = 9})[1].standard, "9");
}

// ---- structs inside structs

struct Wall {
  double height = 2.5;
  Paint paint{.layers = 3};
};

OptionTable<Wall> wall_options() {
  OptionTable<Wall> table;
  table.number("height", &Wall::height, {0.0, 10.0}, "of the wall")
      .part(&Wall::paint, paint_options());
  return table;
}

TEST(Options, OfAStructInsideAreOptionsOfTheWhole) {
  Wall wall;
  wall_options().set_all(wall, {{"height", "3"}, {"layers", "7"}, {"colour", "red"}});
  EXPECT_EQ(wall.height, 3.0);
  EXPECT_EQ(wall.paint.layers, 7U);
  EXPECT_EQ(wall.paint.colour, Colour::kRed);
  EXPECT_EQ(wall_options().values(wall), (OptionValues{{"height", "3"},
                                                       {"weight", "0.25"},
                                                       {"layers", "7"},
                                                       {"glossy", "no"},
                                                       {"colour", "red"}}));
  EXPECT_THROW(wall_options().set(wall, "layers", "0"), Error);
}

TEST(Options, OfAStructInsideHaveTheStandardsOfTheWhole) {
  const std::vector<OptionHelp> help = wall_options().help();
  ASSERT_EQ(help.size(), 5U);
  EXPECT_EQ(help[0].name, "height");
  EXPECT_EQ(help[2].name, "layers");
  EXPECT_EQ(help[2].standard, "3");  // the default of a wall, not that of its paint
}

}  // namespace
}  // namespace mcnb::options_test
