#include <algorithm>

#include "mcnb/data/formats/samples_readers.h"
#include "tests/data/data_files.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::labelled_text_test {
namespace {

using Floats = std::vector<float>;
using Labels = std::vector<std::uint16_t>;
using NamesOfClasses = std::vector<std::string>;

ThreadPool& threads() {
  static ThreadPool pool(2);
  return pool;
}

Samples csv(const std::string& text, const LabelledCsvOptions& options = {}) {
  return read_labelled_csv(text_input(text, "s"), options, threads());
}

TEST(Shuttle, ReadsNumbersAndTheClassBehindThem) {
  const Samples samples = read_shuttle(
      text_input("50 21 77 0 28 0 27 48 22 2\n55 0 92 0 0 26 36 92 -56 7 \n"), threads());
  EXPECT_EQ(samples.dimension, 9U);
  EXPECT_EQ(samples.values, (Floats{50, 21, 77, 0, 28, 0, 27, 48, 22,  //
                                    55, 0, 92, 0, 0, 26, 36, 92, -56}));
  EXPECT_EQ(samples.labels, (Labels{1, 6}));
  EXPECT_EQ(samples.class_count(), 7U);
}

TEST(Shuttle, WrongRowsAreRefused) {
  const auto refused = [](const std::string& row) {
    return refusal(
        [&] { read_shuttle(text_input("1 2 3 4 5 6 7 8 9 1\n" + row, "s"), threads()); });
  };
  EXPECT_EQ(refused("1 2 3 4 5 6 7 8 9 8"),
            "s:2: class: expected one of 1, 2, 3, 4, 5, 6, 7, found '8'");
  EXPECT_EQ(refused("1 2 3 4 5 6 7 8 1"), "s:2: expected 10 columns, found 9");
  EXPECT_EQ(refused("1 2 x 4 5 6 7 8 9 1"), "s:2: column 3: expected a number, found 'x'");
}

TEST(MagicTelescope, ReadsNumbersAndTheClassBehindThem) {
  const Samples samples = read_magic_telescope(
      text_input("28.7967,16.0021,2.6449,0.3918,0.1982,27.7004,22.011,-8.2027,40.092,81.8828,g\n"
                 "1,2,3,4,5,6,7,8,9,10,h\r\n"),
      threads());
  EXPECT_EQ(samples.dimension, 10U);
  EXPECT_EQ(samples.row(0)[7], -8.2027F);
  EXPECT_EQ(samples.labels, (Labels{0, 1}));
  EXPECT_EQ(samples.class_names, (NamesOfClasses{"g", "h"}));
  EXPECT_EQ(
      refusal([] { read_magic_telescope(text_input("1,2,3,4,5,6,7,8,9,10,x\n", "s"), threads()); }),
      "s:1: class: expected one of g, h, found 'x'");
}

TEST(Mushroom, EveryRowHasOneValueOfEachAttribute) {
  const Samples samples =
      read_mushroom(text_input("p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u\n"
                               "e,b,s,y,t,a,f,c,b,k,e,?,s,s,w,w,p,w,o,p,n,n,d\n"),
                    threads());
  EXPECT_EQ(samples.dimension, 126U);
  EXPECT_EQ(samples.labels, (Labels{1, 0}));
  for (const std::size_t k : {0U, 1U}) {
    EXPECT_EQ(std::ranges::count(samples.row(k), 1.0F), 22);
    EXPECT_EQ(std::ranges::count(samples.row(k), 0.0F), 104);
  }
  EXPECT_EQ(samples.row(0)[2], 1.0F) << "cap-shape x is the third of bcxfks";
  EXPECT_EQ(samples.row(1)[0], 1.0F) << "cap-shape b is the first";
  EXPECT_EQ(samples.row(1)[60], 1.0F) << "a missing stalk-root is the last of its seven";
  EXPECT_EQ(samples.row(1)[125], 1.0F) << "habitat d is the last value of all";
}

TEST(Mushroom, ValuesThatAreNotDocumentedAreRefused) {
  const auto refused = [](const std::string& row) {
    return refusal([&] { read_mushroom(text_input(row, "s"), threads()); });
  };
  EXPECT_EQ(refused("q,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u"),
            "s:1: class: expected one of e, p, found 'q'");
  EXPECT_EQ(refused("p,z,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u"),
            "s:1: cap-shape: expected one of b, c, x, f, k, s, found 'z'");
  EXPECT_EQ(refused("p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,?"),
            "s:1: habitat: expected one of g, l, m, p, u, w, d, found '?'");
  EXPECT_EQ(refused("p,x\n"), "s:1: expected 23 columns, found 2");
}

TEST(LabelledCsv, TheLabelIsTheLastColumnOrTheOneNamed) {
  const Samples last = csv("a,b,kind\n1,2,cat\n3,4.5,\"dog, big\"\n5,6,cat\n");
  EXPECT_EQ(last.values, (Floats{1, 2, 3, 4.5F, 5, 6}));
  EXPECT_EQ(last.labels, (Labels{0, 1, 0}));
  EXPECT_EQ(last.class_names, (NamesOfClasses{"cat", "dog, big"}));
  const Samples named = csv("a\tkind\tb\n1\tx\t2\n3\ty\t4\n", {"kind", '\t'});
  EXPECT_EQ(named.values, (Floats{1, 2, 3, 4}));
  EXPECT_EQ(named.labels, (Labels{0, 1}));
  EXPECT_EQ(csv("1,2,x\n3,4,y\n").values, (Floats{1, 2, 3, 4})) << "no header";
  EXPECT_EQ(csv("1  2 x\n3\t4 y \n", {"", ' '}).values, (Floats{1, 2, 3, 4})) << "blanks";
  for (const char* text :
       {"1;2;x\n3;4;y\n", "1\t2\tx\n3\t4\ty\n", "1 2 x\n3 4 y\n", "1, 2, x\n3, 4, y\n"}) {
    EXPECT_EQ(csv(text).values, (Floats{1, 2, 3, 4})) << text;
  }
}

TEST(LabelledCsv, TheFirstLineIsAHeaderWhereToldSo) {
  const std::string numbered = "0,1,label\n2,3,4\n";
  EXPECT_EQ(csv(numbered).values, (Floats{0, 1, 2, 3})) << "its fields are numbers";
  const Samples told = csv(numbered, {.header = HeaderLine::kYes});
  EXPECT_EQ(told.values, (Floats{2, 3}));
  EXPECT_EQ(told.class_names, NamesOfClasses{"4"});
  EXPECT_EQ(csv("0,label,1\n2,x,3\n", {.label_column = "label", .header = HeaderLine::kYes}).values,
            (Floats{2, 3}));
  EXPECT_EQ(refusal([] { csv("a,b,c\n1,2,3\n", {.header = HeaderLine::kNo}); }),
            "s:1: column 1: expected a number, found 'a'");
  plain::expect_error(ErrorKind::kUsage, "label_column: expected none",
                      [] { csv("a,b\n1,2\n", {.label_column = "b", .header = HeaderLine::kNo}); });
}

TEST(LabelledCsv, ClassesAreInTheOrderOfNumbersWhereAllAreNumbers) {
  EXPECT_EQ(csv("1,10\n1,9\n1,-1\n1,10\n").class_names, (NamesOfClasses{"-1", "9", "10"}));
  EXPECT_EQ(csv("1,10\n1,9\n1,-1\n1,10\n").labels, (Labels{2, 1, 0, 2}));
  EXPECT_EQ(csv("1,10\n1,9\n1,b\n").class_names, (NamesOfClasses{"10", "9", "b"}));
}

TEST(LabelledCsv, WrongFilesAreRefused) {
  const auto refused = [](const std::string& text, const LabelledCsvOptions& options = {}) {
    return refusal([&] { csv(text, options); });
  };
  EXPECT_EQ(refused("1,x,3,cat\n"), "s:1: column 2: expected a number, found 'x'");
  EXPECT_EQ(refused("1,2,cat\n1,,cat\n"), "s:2: column 2: expected a number, found nothing");
  EXPECT_EQ(refused("1,2,cat\n1,inf,cat\n"), "s:2: column 2: expected a number, found 'inf'");
  EXPECT_EQ(refused("1,2,cat\n1,2,\n"), "s:2: label: expected a name, found nothing");
  EXPECT_EQ(refused("1,2,cat\n1,2\n"), "s:2: expected 3 columns, found 2");
  EXPECT_EQ(refused("a,b\n1,2\n", {"c"}),
            "s:1: expected a column 'c' for the label, found none of that name");
  EXPECT_EQ(refused("a,b\n"), "s: expected samples, found none");
  EXPECT_EQ(refused("abc\n"),
            "s:1: expected at least 2 columns separated by commas, semicolons, tabs or blanks, "
            "found 1");
  std::string many;
  for (int i = 0; i < 65536; ++i) {
    many += "1," + std::to_string(i) + "\n";
  }
  EXPECT_NE(refused(many).find("at most 65535 classes, found 65536"), std::string::npos);
}

TEST(LabelledCsv, ThreadsChangeNothing) {
  std::string text;
  for (int i = 0; i < 100000; ++i) {
    text += std::to_string(i) + "," + std::to_string(i * 0.25) + ",c" +
            std::to_string(i % 1000 * i % 7) + "\n";
  }
  ThreadPool one(1);
  ThreadPool eight(8);
  const Samples expected = read_labelled_csv(text_input(text), {}, one);
  EXPECT_EQ(expected.size(), 100000U);
  EXPECT_EQ(expected.row(99999)[1], 24999.75F);
  EXPECT_EQ(read_labelled_csv(text_input(text), {}, eight), expected);
}

}  // namespace
}  // namespace mcnb::labelled_text_test
