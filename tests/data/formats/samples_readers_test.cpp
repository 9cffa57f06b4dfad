#include "mcnb/data/formats/samples_readers.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "mcnb/base/random.h"
#include "tests/data/data_files.h"

namespace mcnb::samples_readers_test {
namespace {

using Floats = std::vector<float>;
using Labels = std::vector<std::uint16_t>;
using NamesOfClasses = std::vector<std::string>;

std::string idx_file(const std::vector<std::uint32_t>& sizes, std::string_view data) {
  std::string file = big_endian(0x800 + sizes.size());
  for (const std::uint32_t size : sizes) {
    file += big_endian(size);
  }
  return file + std::string(data);
}

Samples idx(const std::string& images, const std::string& labels, const IdxOptions& options = {}) {
  return read_idx(text_input(images, "images"), text_input(labels, "labels"), options);
}

const std::string kImages = idx_file({2, 2, 3}, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\xfd\xfe\xff");
const std::string kLabels = idx_file({2}, "\x02\x01");

TEST(Idx, ReadsBytesAsTheyAre) {
  for (const bool packed : {false, true}) {
    const Samples samples =
        idx(packed ? gzipped(kImages) : kImages, packed ? gzipped(kLabels) : kLabels);
    EXPECT_EQ(samples.dimension, 6U);
    EXPECT_EQ(samples.values, (Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 253, 254, 255}));
    EXPECT_EQ(samples.labels, (Labels{2, 1}));
    EXPECT_EQ(samples.class_names, (NamesOfClasses{"0", "1", "2"}));
    EXPECT_EQ(samples.report.rows, 2U);
  }
}

TEST(Idx, TransposesAndCountsLabelsFromWhereTold) {
  const Samples samples =
      idx(kImages, kLabels, {.transpose = true, .first_label = 1, .class_names = {"A", "B", "C"}});
  EXPECT_EQ(samples.values, (Floats{1, 4, 2, 5, 3, 6, 7, 253, 8, 254, 9, 255}));
  EXPECT_EQ(samples.labels, (Labels{1, 0}));
  EXPECT_EQ(samples.class_names, (NamesOfClasses{"A", "B", "C"}));
}

TEST(Idx, WrongFilesAreRefused) {
  const auto refused = [](const std::string& images, const std::string& labels,
                          const IdxOptions& options = {}) {
    return refusal([&] { idx(images, labels, options); });
  };
  EXPECT_EQ(refused(kImages, kImages), "labels: byte 16: expected labels, one dimension, found 3");
  EXPECT_EQ(refused("\x89PNG....", kLabels),
            "images: byte 4: expected the magic number of IDX with unsigned bytes, 0x00000801 to "
            "0x00000808, found 0x89504e47");
  EXPECT_EQ(refused(kImages, idx_file({3}, "\1\1\1")),
            "images: byte 16: expected as many samples as labels has labels, 3, and at least one, "
            "found 2");
  EXPECT_EQ(refused(kImages.substr(0, kImages.size() - 1), kLabels),
            "images: byte 27: expected 1 more bytes of the samples, found the end of the file");
  EXPECT_EQ(refused(kImages + "x", kLabels),
            "images: byte 28: expected the end of the file, found more");
  EXPECT_EQ(refused(kImages.substr(0, 6), kLabels),
            "images: byte 6: expected 2 more bytes of the sizes, found the end of the file");
  EXPECT_EQ(refused("", kLabels),
            "images: byte 0: expected 4 more bytes of the magic number, found the end of the file");
  EXPECT_EQ(refused(kImages, kLabels, {.first_label = 2}),
            "labels: label 2: expected 2 to 2, found 1");
  EXPECT_EQ(refused(kImages, kLabels, {.class_names = {"a", "b"}}),
            "labels: label 1: expected 0 to 1, found 2");
  EXPECT_EQ(refused(idx_file({2, 6}, std::string(12, 'x')), kLabels, {.transpose = true}),
            "images: byte 12: expected pictures, three dimensions, to transpose, found 2");
  EXPECT_NE(refused(idx_file({0, 2, 2}, ""), idx_file({0}, "")), "");
}

TEST(Idx, SizesThatNothingFollowsTakeNoMemory) {
  const std::uint32_t most = 0xffffffff;
  EXPECT_NE(refusal([&] { idx(kImages, idx_file({most}, "abc")); }).find("found the end"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              idx(idx_file({2, most, most}, "abc"), kLabels);
            }).find("expected samples of 1 to 16777216 bytes"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              idx(idx_file({2, 4096, 4096}, "abc"), kLabels);
            }).find("the end"),
            std::string::npos);
}

const NamesOfClasses kTenNames = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};

std::string cifar_record(std::uint8_t label) {
  std::string record(1, static_cast<char>(label));
  for (int i = 0; i < 3072; ++i) {
    record += static_cast<char>((i * 31 + label) % 256);
  }
  return record;
}

TEST(Cifar10, ReadsRecords) {
  std::string text;
  for (int i = 0; i < 700; ++i) {
    text += cifar_record(static_cast<std::uint8_t>(i % 10));
  }
  const Samples samples = read_cifar10_batch(text_input(gzipped(text)), kTenNames);
  ASSERT_EQ(samples.size(), 700U);
  EXPECT_EQ(samples.dimension, 3072U);
  EXPECT_EQ(samples.class_names, kTenNames);
  for (std::size_t k = 0; k < samples.size(); ++k) {
    ASSERT_EQ(samples.labels[k], k % 10);
    ASSERT_EQ(samples.row(k)[0], static_cast<float>(k % 10));
    ASSERT_EQ(samples.row(k)[3071], static_cast<float>((3071 * 31 + k % 10) % 256));
  }
}

TEST(Cifar10, ABatchLargerThanThePublishedOnesIsReadInStride) {
  constexpr std::size_t kRecords = 10'500;
  std::string text;
  for (std::size_t k = 0; k < kRecords; ++k) {
    static const std::string record = cifar_record(7);
    text += record;
  }
  const Samples samples = read_cifar10_batch(text_input(text), kTenNames);
  EXPECT_EQ(samples.size(), kRecords);
  EXPECT_EQ(samples.values.size(), kRecords * 3072);
  EXPECT_GE(samples.values.capacity(), 15'000U * 3072) << "it grows by a share, not by a record";
}

TEST(Cifar10, WrongBatchesAreRefused) {
  const auto refused = [](const std::string& text) {
    return refusal([&] { read_cifar10_batch(text_input(text, "b"), kTenNames); });
  };
  EXPECT_EQ(refused(cifar_record(1) + "abc"),
            "b: byte 3076: expected records of 3073 bytes, found 3 at the end");
  EXPECT_EQ(refused(cifar_record(1) + cifar_record(10)),
            "b: record 2: label: expected 0 to 9, found 10");
  EXPECT_EQ(refused(""), "b: byte 0: expected pictures, found an empty file");
}

TEST(Cifar10, ReadsBatchesAndTheNamesOfTheClasses) {
  const std::string names = gzipped("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const std::string first = gzipped(cifar_record(4) + cifar_record(5));
  const std::string second = cifar_record(3);
  const std::vector<Input> batches{text_input(first), text_input(second)};
  const Samples samples = read_cifar10(text_input(names), batches);
  EXPECT_EQ(samples.labels, (Labels{4, 5, 3}));
  EXPECT_EQ(samples.class_names, kTenNames);
  EXPECT_EQ(samples.report.rows, 3U);
  EXPECT_NE(
      refusal([&] { read_cifar10(text_input("a\nb\n"), batches); }).find("10 classes, found 2"),
      std::string::npos);
}

TEST(Samples, JoinOnlyWhatFits) {
  const auto part = [](std::size_t dimension, const NamesOfClasses& names) {
    Samples samples;
    samples.dimension = dimension;
    samples.values.assign(dimension, 1.5F);
    samples.labels = {0};
    samples.class_names = names;
    samples.report.rows = 1;
    return samples;
  };
  const Samples both = join_samples({part(2, {"a"}), part(2, {"a"})});
  EXPECT_EQ(both.size(), 2U);
  EXPECT_EQ(both.values, (Floats{1.5F, 1.5F, 1.5F, 1.5F}));
  EXPECT_EQ(both.report.rows, 2U);
  EXPECT_EQ(refusal([&] {
              join_samples({part(2, {"a"}), part(3, {"a"})});
            }),
            "part 2 of the samples: expected 2 numbers a sample, found 3");
  EXPECT_EQ(refusal([&] {
              join_samples({part(2, {"a"}), part(2, {"a"}), part(2, {"b"})});
            }),
            "part 3 of the samples: its 1 classes are not the 1 of the first");
}

// A .npy file as NumPy writes it.
std::string npy_file(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string header = dictionary;
  while ((header.size() + 13) % 64 != 0) {
    header += ' ';
  }
  header += '\n';
  std::string length = big_endian(header.size(), version == 1 ? 2 : 4);
  std::reverse(length.begin(), length.end());
  return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' + length + header + data;
}

template <class T>
std::string npy_of(const std::string& type, const std::string& shape, const std::vector<T>& values,
                   int version = 1) {
  std::string data(values.size() * sizeof(T), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return npy_file(
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape), data,
      version);
}

Samples npy(const std::string& values, const std::optional<std::string>& labels = {}) {
  std::optional<Input> label_input;
  if (labels) {
    label_input = text_input(*labels, "y.npy");
  }
  return read_npy(text_input(values, "x.npy"), label_input);
}

TEST(Npy, ReadsAllTypesAndVersions) {
  const Floats expected = {1, 2, 3, 4};
  const std::string labels = npy_of<std::int64_t>("<i8", "(2,)", {7, -1});
  const auto same = [&](const std::string& file) {
    const Samples samples = npy(file, labels);
    EXPECT_EQ(samples.values, expected);
    EXPECT_EQ(samples.dimension, 2U);
    EXPECT_EQ(samples.class_names, (NamesOfClasses{"-1", "7"}));
    EXPECT_EQ(samples.labels, (Labels{1, 0}));
  };
  same(npy_of<float>("<f4", "(2, 2)", {1, 2, 3, 4}));
  same(npy_of<double>("<f8", "(2, 2)", {1, 2, 3, 4}, 2));
  same(npy_of<std::uint8_t>("|u1", "(2, 2, 1)", {1, 2, 3, 4}, 3));
  same(npy_of<std::int8_t>("|i1", "(2,2)", {1, 2, 3, 4}));
  same(npy_of<std::uint16_t>("<u2", "(2, 2)", {1, 2, 3, 4}));
  same(npy_of<std::int16_t>("<i2", "(2, 2)", {1, 2, 3, 4}));
  same(npy_of<std::uint32_t>("<u4", "(2, 2)", {1, 2, 3, 4}));
  same(npy_of<std::int32_t>("<i4", "(2, 2)", {1, 2, 3, 4}));
  same(npy_of<std::uint64_t>("<u8", "(2, 2)", {1, 2, 3, 4}));
  same(gzipped(npy_of<std::int64_t>("<i8", "(2, 1, 2)", {1, 2, 3, 4})));
}

TEST(Npy, TheLastColumnMayBeTheLabel) {
  const Samples samples = npy(npy_of<double>("<f8", "(3, 3)", {.5, 1, 10, .25, 2, 9, 0, 3, 10}));
  EXPECT_EQ(samples.values, (Floats{.5F, 1, .25F, 2, 0, 3}));
  EXPECT_EQ(samples.class_names, (NamesOfClasses{"9", "10"})) << "as numbers, not as text";
  EXPECT_EQ(samples.labels, (Labels{1, 0, 1}));
}

TEST(Npy, LongArraysArriveWhole) {
  constexpr std::size_t kRows = 50000;
  constexpr std::size_t kWidth = 12;
  std::vector<float> values;
  Rng rng(4, Stream::kTest);
  for (std::size_t i = 0; i < kRows * kWidth; ++i) {
    values.push_back(i % kWidth == kWidth - 1 ? static_cast<float>(rng.below(3))
                                              : static_cast<float>(rng.uniform()));
  }
  const Samples samples = npy(npy_of("<f4", fmt::format("({}, {})", kRows, kWidth), values));
  ASSERT_EQ(samples.size(), kRows);
  for (std::size_t k = 0; k < kRows; ++k) {
    for (std::size_t i = 0; i + 1 < kWidth; ++i) {
      ASSERT_EQ(samples.row(k)[i], values[k * kWidth + i]);
    }
    ASSERT_EQ(samples.labels[k], static_cast<std::uint16_t>(values[k * kWidth + kWidth - 1]));
  }
}

// Rows of pictures, in either order of the same array.
TEST(Npy, FortranOrderMeansTheSameNumbers) {
  constexpr std::size_t kRows = 30'000;
  constexpr std::size_t kHigh = 3;
  constexpr std::size_t kWide = 4;
  std::vector<std::int32_t> by_row(kRows * kHigh * kWide);
  std::vector<std::int32_t> by_column(by_row.size());
  for (std::size_t k = 0; k < kRows; ++k) {
    for (std::size_t i = 0; i < kHigh; ++i) {
      for (std::size_t j = 0; j < kWide; ++j) {
        const auto number = static_cast<std::int32_t>(k % 50 * 100 + i * 10 + j);
        by_row[(k * kHigh + i) * kWide + j] = number;
        by_column[k + kRows * (i + kHigh * j)] = number;
      }
    }
  }
  std::string data(by_column.size() * sizeof by_column[0], '\0');
  std::memcpy(data.data(), by_column.data(), data.size());
  const std::string shape = fmt::format("({}, {}, {})", kRows, kHigh, kWide);
  const Samples samples =
      npy(npy_file("{'descr': '<i4', 'fortran_order': True, 'shape': " + shape + ", }", data));
  EXPECT_EQ(samples.size(), kRows);
  EXPECT_EQ(samples, npy(npy_of("<i4", shape, by_row)));
}

TEST(OwnSamples, AreToldByTheirFirstBytes) {
  ThreadPool threads(1);
  const auto own = [&](const std::string& bytes, const LabelledCsvOptions& options = {}) {
    return read_samples_file(text_input(bytes, "any.name"), options, threads);
  };
  const std::string array = npy_of<float>("<f4", "(2, 3)", {1, 2, 7, 3, 4, 8});
  for (const std::string& bytes : {array, gzipped(array), std::string("1,2,7\n3,4,8\n")}) {
    EXPECT_EQ(own(bytes).values, (Floats{1, 2, 3, 4}));
    EXPECT_EQ(own(bytes).class_names, (NamesOfClasses{"7", "8"}));
  }
  EXPECT_EQ(own("a;b\n1;2\n", {.label_column = "a", .separator = ';'}).values, Floats{2});
  EXPECT_NE(refusal([&] { own(array.substr(0, 20)); }).find("the header"), std::string::npos);
  EXPECT_NE(refusal([&] { own(""); }), "");
  EXPECT_THROW(own(array, {.label_column = "a"}), Error);
}

TEST(Npy, WrongFilesAreRefused) {
  const auto dictionary = [](const std::string& type, const std::string& order,
                             const std::string& shape) {
    return npy_file(
        fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}", type, order, shape),
        std::string(64, '\0'));
  };
  for (const auto& [file, expected] : std::vector<std::pair<std::string, std::string>>{
           {dictionary("'<f4'", "True", "(2, 2)"), "expected the end of the file, found more"},
           {dictionary("'<f4'", "True", "(9, 2)"), "bytes of the array, found the end of the file"},
           {dictionary("'<f4'", "True", "(9000000000, 2)"), "found the end of the file"},
           {dictionary("'<f4'", "True", "(9000000000000000000, 2)"),
            "expected at most 2814749767106"},
           {dictionary("'>f4'", "False", "(2, 2)"), "found '>f4'"},
           {dictionary("[('a', '<f4')]", "False", "(2, 2)"), "a text in quotes"},
           {dictionary("'<f4'", "Maybe", "(2, 2)"), "expected True or False, found 'Maybe"},
           {dictionary("'<f4'", "False", "()"), "at least one row"},
           {dictionary("'<f4'", "False", "(0, 2)"), "at least one row"},
           {dictionary("'<f4'", "False", "(2, 0)"), "one size to be 0"},
           {dictionary("'<f4'", "False", "(2, -1)"), "expected a size, found '-1"},
           {dictionary("'<f4'", "False", "(2, 99999999999)"), "one size to be 99999999999"},
           {dictionary("'<f4'", "False", "(2, 99999999999999999999999)"), "expected a size"},
           {dictionary("'<f4'", "False", "(2 2)"), "expected ')'"},
           {dictionary("'<f4'", "False", "(2,)"), "beside the label"},
           {dictionary("'<f4'", "False", "(9000000000000000000, 2)"), "found the end of the file"},
           {dictionary("'<f4'", "False", "(2, 2)"), "expected the end of the file, found more"},
           {npy_file("{'descr': '<f4', 'shape': (2, 2)}", ""), "but one is missing"},
           {npy_file("{'other': 1}", ""), "found 'other'"},
           {npy_file("[]", ""), "expected '{'"},
           {npy_file("{} x", ""), "but one is missing"},
           {npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)} x", ""),
            "expected its end, found 'x"},
           {npy_file("{}", "", 9), "expected version 1, 2 or 3 of the format, found 9"},
           {std::string("\x93NUMPY\x02\0\xff\xff\xff\x7f", 12), "a header of at most 1048576"},
           {"PNG, say", "expected a .npy file"},
           {"", "found the end of the file"}}) {
    const std::string message = refusal([&, &bytes = file] { npy(bytes); });
    EXPECT_NE(message.find(expected), std::string::npos) << message << "\n" << expected;
  }
}

TEST(Npy, WrongNumbersAreRefused) {
  const auto refused = [](const std::string& values, const std::optional<std::string>& labels) {
    return refusal([&] { npy(values, labels); });
  };
  const std::string good = npy_of<float>("<f4", "(2, 1)", {1, 2});
  EXPECT_NE(refused(npy_of<float>("<f4", "(1, 2)", {NAN, 1}), {}).find("finite"),
            std::string::npos);
  EXPECT_NE(refused(npy_of<double>("<f8", "(1, 2)", {1e300, 1}), {}).find("finite"),
            std::string::npos);
  EXPECT_NE(refused(npy_of<float>("<f4", "(1, 2)", {1, 0.5F}), {})
                .find("label 1: expected a whole number, found 0.5"),
            std::string::npos);
  EXPECT_NE(refused(good, npy_of<float>("<f4", "(2,)", {1, INFINITY})).find("label 2: expected"),
            std::string::npos);
  EXPECT_NE(refused(good, npy_of<float>("<f4", "(3,)", {1, 1, 1}))
                .find("expected 2 labels, found 3 rows of 1"),
            std::string::npos);
  std::vector<std::uint32_t> many(2 * 65536);
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = static_cast<std::uint32_t>(i);
  }
  EXPECT_NE(refused(npy_of("<u4", "(65536, 2)", many), {})
                .find("labels that name classes, found more than 65535 different ones"),
            std::string::npos);
}

}  // namespace
}  // namespace mcnb::samples_readers_test
