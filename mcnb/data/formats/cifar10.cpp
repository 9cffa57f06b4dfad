#include <fmt/core.h>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/data/formats/binary_reader.h"
#include "mcnb/data/formats/column_growth.h"
#include "mcnb/data/formats/samples_readers.h"
#include "mcnb/data/formats/text_fields.h"

namespace mcnb {
namespace {

constexpr std::size_t kClasses = 10;
constexpr std::size_t kPicture = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecord = 1 + kPicture;
constexpr std::size_t kBatch = 10000;  // records of a published batch
constexpr std::size_t kBlock = 1024;   // records read at once

// Reads ten names, one per line, as in batches.meta.txt.
std::vector<std::string> read_class_names(const Input& input) {
  constexpr std::size_t kLongest = std::size_t{1} << 16;
  std::string text(kLongest, '\0');
  text.resize(input.open()->read(text.data(), text.size()));
  std::vector<std::string> names;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view name = trimmed(take_line(rest));
    if (!name.empty()) {
      names.emplace_back(name);
    }
  }
  if (names.size() != kClasses || text.size() == kLongest) {
    throw Error(ErrorKind::kInput, fmt::format("{}: expected the names of {} classes, found {}",
                                               input.name(), kClasses, names.size()));
  }
  return names;
}

// Adds a batch to the samples. `expected` is how many samples all batches have together.
void append_batch(const Input& batch, std::size_t expected, Samples& samples) {
  BinaryReader file(batch);
  const std::size_t before = samples.size();
  std::vector<std::uint8_t> block(kBlock * kRecord);
  for (std::size_t got = block.size(); got == block.size();) {
    got = file.read_some(block);
    if (got % kRecord != 0) {
      file.refuse(
          fmt::format("expected records of {} bytes, found {} at the end", kRecord, got % kRecord));
    }
    const std::size_t numbers = got / kRecord * kPicture;
    make_room(samples.values, numbers,
              static_cast<double>(expected * kPicture) /
                  static_cast<double>(samples.values.size() + numbers + 1));
    for (std::size_t at = 0; at < got; at += kRecord) {
      const std::span<const std::uint8_t> record = std::span(block).subspan(at, kRecord);
      if (record[0] >= kClasses) {
        throw Error(ErrorKind::kInput,
                    fmt::format("{}: record {}: label: expected 0 to {}, found {}", file.name(),
                                samples.size() - before + 1, kClasses - 1, record[0]));
      }
      samples.labels.push_back(record[0]);
      samples.values.insert(samples.values.end(), record.begin() + 1, record.end());
    }
  }
  if (samples.size() == before) {
    file.refuse("expected pictures, found an empty file");
  }
}

Samples read_batches(std::span<const Input> batches, const std::vector<std::string>& class_names) {
  Samples samples;
  samples.dimension = kPicture;
  samples.class_names = class_names;
  for (const Input& batch : batches) {
    append_batch(batch, batches.size() * kBatch, samples);
  }
  samples.report.rows = samples.size();
  return samples;
}

}  // namespace

Samples read_cifar10_batch(const Input& batch, const std::vector<std::string>& class_names) {
  if (class_names.size() != kClasses) {
    throw Error(ErrorKind::kUsage, fmt::format("CIFAR-10: expected the names of {} classes, got {}",
                                               kClasses, class_names.size()));
  }
  return read_batches({&batch, 1}, class_names);
}

Samples read_cifar10(const Input& class_names, std::span<const Input> batches) {
  check(!batches.empty(), "there is a batch to read");
  return read_batches(batches, read_class_names(class_names));
}

}  // namespace mcnb
