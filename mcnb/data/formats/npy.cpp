#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "mcnb/data/formats/class_labels.h"
#include "mcnb/data/formats/column_growth.h"
#include "mcnb/data/formats/npy_header.h"
#include "mcnb/data/formats/samples_readers.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kLargestSample = std::uint64_t{1} << 24;
constexpr std::size_t kBlock = std::size_t{1} << 18;  // numbers read at once

template <class T>
void convert(std::span<const std::uint8_t> bytes, std::span<double> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    numbers[i] = static_cast<double>(value);
  }
}

// The supported types of numbers, by their NumPy names.
struct NumberType {
  std::string_view name;
  std::size_t size;
  void (*convert)(std::span<const std::uint8_t> bytes, std::span<double> numbers);
};
constexpr std::array<NumberType, 11> kTypes = {{{"|b1", 1, convert<std::uint8_t>},
                                                {"|u1", 1, convert<std::uint8_t>},
                                                {"|i1", 1, convert<std::int8_t>},
                                                {"<u2", 2, convert<std::uint16_t>},
                                                {"<i2", 2, convert<std::int16_t>},
                                                {"<u4", 4, convert<std::uint32_t>},
                                                {"<i4", 4, convert<std::int32_t>},
                                                {"<u8", 8, convert<std::uint64_t>},
                                                {"<i8", 8, convert<std::int64_t>},
                                                {"<f4", 4, convert<float>},
                                                {"<f8", 8, convert<double>}}};

// Reads the rows of an array block by block, so that a wrong header cannot take much memory. An
// array in Fortran order is held as a whole.
class NpyRows {
 public:
  explicit NpyRows(const Input& input) : file_(input) {
    const NpyHeader header = read_npy_header(file_);
    const auto* const type = std::ranges::find(kTypes, header.type, &NumberType::name);
    if (type == kTypes.end()) {
      file_.refuse(
          fmt::format("header: expected little-endian whole or floating-point numbers, "
                      "such as '<f4', '<f8' or '|u1', found '{}'",
                      header.type));
    }
    type_ = *type;
    if (header.shape.empty() || header.shape[0] == 0) {
      file_.refuse("header: expected a shape with at least one row, found none");
    }
    rows_ = header.shape[0];
    for (std::size_t i = 1; i < header.shape.size(); ++i) {
      const std::uint64_t size = header.shape[i];
      if (size == 0 || size > kLargestSample / width_) {
        file_.refuse(
            fmt::format("header: expected rows of 1 to {} numbers, found one size to be "
                        "{}",
                        kLargestSample, size));
      }
      width_ *= size;
    }
    if (header.fortran_order) {
      columns_ = Columns{read_columns(), positions_of_columns(header.shape)};
    }
  }

  std::uint64_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  const BinaryReader& file() const { return file_; }

  // The next rows; empty at the end.
  std::span<const double> next() {
    const std::uint64_t count =
        std::min<std::uint64_t>(rows_ - done_, std::max<std::size_t>(1, kBlock / width_));
    if (count == 0) {
      file_.expect_end();
      return {};
    }
    numbers_.resize(static_cast<std::size_t>(count) * width_);
    if (columns_) {
      gather(static_cast<std::size_t>(count));
    } else {
      bytes_.resize(numbers_.size() * type_.size);
      file_.read(bytes_, "the array");
      type_.convert(bytes_, numbers_);
    }
    done_ += count;
    return numbers_;
  }

 private:
  // An array in Fortran order: whole columns, one after the other.
  struct Columns {
    std::vector<std::uint8_t> bytes;
    std::vector<std::size_t> positions;  // position of each column in a row
  };

  std::vector<std::uint8_t> read_columns() {
    constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 48;
    if (rows_ > kMostNumbers / width_) {
      file_.refuse(fmt::format("header: expected at most {} numbers, found {} rows of {}",
                               kMostNumbers, rows_, width_));
    }
    const auto size = static_cast<std::size_t>(rows_) * width_ * type_.size;
    std::vector<std::uint8_t> bytes;
    while (bytes.size() < size) {
      const std::size_t step = std::min(size - bytes.size(), kBlock * type_.size);
      bytes.resize(bytes.size() + step);
      file_.read(std::span(bytes).last(step), "the array");
    }
    return bytes;
  }

  // Of the dimensions after the first, the first varies fastest in Fortran order, the last in C
  // order.
  std::vector<std::size_t> positions_of_columns(const std::vector<std::uint64_t>& shape) const {
    std::vector<std::size_t> positions(width_, 0);
    for (std::size_t column = 0; column < width_; ++column) {
      std::size_t rest = column;
      for (std::size_t i = 1; i < shape.size(); ++i) {
        const auto size = static_cast<std::size_t>(shape[i]);
        positions[column] = positions[column] * size + rest % size;
        rest /= size;
      }
    }
    return positions;
  }

  void gather(std::size_t count) {
    column_.resize(count);
    for (std::size_t column = 0; column < width_; ++column) {
      const std::size_t first =
          column * static_cast<std::size_t>(rows_) + static_cast<std::size_t>(done_);
      type_.convert(std::span(columns_->bytes).subspan(first * type_.size, count * type_.size),
                    column_);
      for (std::size_t row = 0; row < count; ++row) {
        numbers_[row * width_ + columns_->positions[column]] = column_[row];
      }
    }
  }

  BinaryReader file_;
  NumberType type_{};
  std::uint64_t rows_ = 0;
  std::uint64_t done_ = 0;
  std::size_t width_ = 1;
  std::vector<std::uint8_t> bytes_;
  std::vector<double> numbers_;
  std::optional<Columns> columns_;
  std::vector<double> column_;
};

// Collects labels, and numbers distinct ones in the order in which they occur.
class LabelNumbers {
 public:
  void add(const BinaryReader& file, double label) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond, doubles skip whole numbers
    if (!(std::abs(label) <= kExact) || label != std::trunc(label)) {
      file.refuse(
          fmt::format("label {}: expected a whole number, found {}", labels_.size() + 1, label));
    }
    const auto number = static_cast<std::uint32_t>(numbers_.size());
    labels_.push_back(numbers_.try_emplace(static_cast<std::int64_t>(label), number).first->second);
    if (numbers_.size() > std::numeric_limits<std::uint16_t>::max()) {
      file.refuse("expected labels that name classes, found more than 65535 different ones");
    }
  }

  void give_to(Samples& samples, const std::string& file) const {
    std::vector<std::string> names(numbers_.size());
    for (const auto& [label, number] : numbers_) {
      names[number] = std::to_string(label);
    }
    set_class_labels(samples, labels_, names, file);
  }

 private:
  std::vector<std::uint32_t> labels_;
  std::map<std::int64_t, std::uint32_t> numbers_;
};

float finite(const BinaryReader& file, double number) {
  const auto narrow = static_cast<float>(number);
  if (!std::isfinite(narrow)) {
    file.refuse(fmt::format("expected finite numbers that a float can hold, found {}", number));
  }
  return narrow;
}

void read_labels(const Input& input, std::uint64_t count, LabelNumbers& labels) {
  NpyRows rows(input);
  if (rows.width() != 1 || rows.rows() != count) {
    rows.file().refuse(
        fmt::format("expected {} labels, found {} rows of {}", count, rows.rows(), rows.width()));
  }
  for (std::span<const double> block = rows.next(); !block.empty(); block = rows.next()) {
    for (const double label : block) {
      labels.add(rows.file(), label);
    }
  }
}

}  // namespace

Samples read_npy(const Input& values, const std::optional<Input>& labels) {
  NpyRows rows(values);
  LabelNumbers label_numbers;
  Samples samples;
  samples.dimension = labels ? rows.width() : rows.width() - 1;
  if (samples.dimension == 0) {
    rows.file().refuse("expected numbers beside the label in every row, found none");
  }
  if (labels) {
    read_labels(*labels, rows.rows(), label_numbers);
  }
  for (std::span<const double> block = rows.next(); !block.empty(); block = rows.next()) {
    make_room(samples.values, block.size(), kMostGrowth);
    for (std::size_t at = 0; at < block.size(); at += rows.width()) {
      for (const double number : block.subspan(at, samples.dimension)) {
        samples.values.push_back(finite(rows.file(), number));
      }
      if (!labels) {
        label_numbers.add(rows.file(), block[at + samples.dimension]);
      }
    }
  }
  label_numbers.give_to(samples, labels ? labels->name() : values.name());
  samples.report.rows = samples.size();
  return samples;
}

}  // namespace mcnb
