#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/binary_reader.h"
#include "mcnb/data/formats/column_growth.h"
#include "mcnb/data/formats/samples_readers.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostDimensions = 8;
constexpr std::size_t kLargestSample = std::size_t{1} << 24;
constexpr std::size_t kBlock = std::size_t{1} << 20;

std::uint32_t read_number(BinaryReader& file, std::string_view what) {
  std::array<std::uint8_t, 4> bytes;
  file.read(bytes, what);
  return std::accumulate(bytes.begin(), bytes.end(), std::uint32_t{0},
                         [](std::uint32_t sum, std::uint8_t byte) { return sum << 8 | byte; });
}

// The sizes that the header states. The magic number is two zero bytes, the type, which is
// unsigned bytes in all published files, and the number of dimensions.
std::vector<std::uint32_t> read_sizes(BinaryReader& file) {
  constexpr std::uint32_t kUnsignedBytes = 0x08;
  const std::uint32_t magic = read_number(file, "the magic number");
  const std::uint32_t dimensions = magic & 0xff;
  if (magic >> 8 != kUnsignedBytes || dimensions == 0 || dimensions > kMostDimensions) {
    file.refuse(
        fmt::format("expected the magic number of IDX with unsigned bytes, 0x00000801 to "
                    "0x0000080{}, found 0x{:08x}",
                    kMostDimensions, magic));
  }
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    sizes.push_back(read_number(file, "the sizes"));
  }
  return sizes;
}

std::size_t sample_size(const BinaryReader& file, const std::vector<std::uint32_t>& sizes) {
  std::size_t size = 1;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i] == 0 || sizes[i] > kLargestSample / size) {
      file.refuse(fmt::format("expected samples of 1 to {} bytes, found one size to be {}",
                              kLargestSample, sizes[i]));
    }
    size *= sizes[i];
  }
  return size;
}

// Transposes a picture.
void transpose(std::span<std::uint8_t> picture, std::size_t rows, std::vector<std::uint8_t>& copy) {
  copy.assign(picture.begin(), picture.end());
  const std::size_t columns = picture.size() / rows;
  for (std::size_t i = 0; i < picture.size(); ++i) {
    picture[i] = copy[(i % rows) * columns + i / rows];
  }
}

// Reads exactly the bytes that the header promises; memory grows as they arrive.
std::vector<std::uint8_t> read_labels(const Input& input) {
  BinaryReader file(input);
  const std::vector<std::uint32_t> sizes = read_sizes(file);
  if (sizes.size() != 1) {
    file.refuse(fmt::format("expected labels, one dimension, found {}", sizes.size()));
  }
  std::vector<std::uint8_t> labels;
  while (labels.size() < sizes[0]) {
    const std::size_t old = labels.size();
    labels.resize(std::min<std::size_t>(sizes[0], old + kBlock));
    file.read(std::span(labels).subspan(old), "the labels");
  }
  file.expect_end();
  return labels;
}

// Turns labels into class numbers, and sets the names of the classes.
void take_classes(const Input& input, const std::vector<std::uint8_t>& labels,
                  const IdxOptions& options, Samples& samples) {
  const std::uint32_t largest = labels.empty() ? 0 : *std::ranges::max_element(labels);
  samples.class_names = options.class_names;
  if (samples.class_names.empty()) {
    for (std::uint32_t label = options.first_label; label <= largest; ++label) {
      samples.class_names.push_back(std::to_string(label));
    }
  }
  for (std::size_t k = 0; k < labels.size(); ++k) {
    const std::uint32_t label = labels[k];
    if (label < options.first_label || label - options.first_label >= samples.class_count()) {
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}: label {}: expected {} to {}, found {}", input.name(), k + 1,
                      options.first_label, options.first_label + samples.class_count() - 1, label));
    }
    samples.labels.push_back(static_cast<std::uint16_t>(label - options.first_label));
  }
}

}  // namespace

Samples read_idx(const Input& images, const Input& labels, const IdxOptions& options) {
  Samples samples;
  take_classes(labels, read_labels(labels), options, samples);

  BinaryReader file(images);
  const std::vector<std::uint32_t> sizes = read_sizes(file);
  samples.dimension = sample_size(file, sizes);
  if (sizes[0] == 0 || sizes[0] != samples.size()) {
    file.refuse(
        fmt::format("expected as many samples as {} has labels, {}, and at least one, "
                    "found {}",
                    labels.name(), samples.size(), sizes[0]));
  }
  if (options.transpose && sizes.size() != 3) {
    file.refuse(
        fmt::format("expected pictures, three dimensions, to transpose, found {}", sizes.size()));
  }
  std::vector<std::uint8_t> block(std::max<std::size_t>(1, kBlock / samples.dimension) *
                                  samples.dimension);
  std::vector<std::uint8_t> copy;
  const std::size_t total = samples.size() * samples.dimension;
  while (samples.values.size() < total) {
    const std::size_t left = total - samples.values.size();
    const std::span<std::uint8_t> part = std::span(block).first(std::min(left, block.size()));
    file.read(part, "the samples");
    for (std::size_t k = 0; options.transpose && k < part.size(); k += samples.dimension) {
      transpose(part.subspan(k, samples.dimension), sizes[1], copy);
    }
    append(samples.values, std::span<const std::uint8_t>(part), total);
  }
  file.expect_end();
  samples.report.rows = samples.size();
  return samples;
}

}  // namespace mcnb
