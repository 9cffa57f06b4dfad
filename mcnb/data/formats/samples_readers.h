#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/data/formats/header_line.h"
#include "mcnb/data/formats/input.h"
#include "mcnb/data/samples.h"

namespace mcnb {

// Readers of labelled samples, one per public format. Each reads plain files or gzip and throws
// Error (kInput) naming the location and what was expected there. Memory grows as data arrives, not
// with the sizes that a file's header claims.

// IDX (MNIST and its relatives): unsigned bytes; the first dimension counts the samples, the others
// make up one sample. Labels are a second file.
struct IdxOptions {
  bool transpose = false;                // EMNIST: columns of the picture come first
  std::uint32_t first_label = 0;         // EMNIST Letters: 1
  std::vector<std::string> class_names;  // empty: the labels from the first to the largest
};
Samples read_idx(const Input& images, const Input& labels, const IdxOptions& options = {});

// One binary batch of CIFAR-10: records of a label and 3 x 32 x 32 bytes. Requires ten names.
Samples read_cifar10_batch(const Input& batch, const std::vector<std::string>& class_names);

// Batches of CIFAR-10 in order, and the names of the classes: a text of ten lines, such as
// batches.meta.txt. Requires at least one batch.
Samples read_cifar10(const Input& class_names, std::span<const Input> batches);

// notMNIST: PNG pictures, 28 x 28, in folders A to J, at any depth of a folder or a .tar or .tar.gz
// archive. Sorted by letter and file name. Pictures that cannot be read (the public archives have
// two) and other files are left out and reported.
inline constexpr std::string_view kNotMnistLetters = "ABCDEFGHIJ";  // its classes
Samples read_notmnist(const std::filesystem::path& folder_or_archive, ThreadPool& threads);
Samples read_notmnist_archive(const Input& archive, ThreadPool& threads);

// UCI Shuttle (Statlog): nine numbers and the class, 1 to 7, separated by blanks.
Samples read_shuttle(const Input& input, ThreadPool& threads);

// UCI Mushroom: the class (e or p) and 22 letters. A sample has one number for each attribute and
// documented value ('?' is one), 126 in all: 1 if it has the value, else 0. So any part of the file
// has the same columns.
Samples read_mushroom(const Input& input, ThreadPool& threads);

// UCI MAGIC gamma telescope: ten numbers and the class, g or h.
Samples read_magic_telescope(const Input& input, ThreadPool& threads);

// Any CSV of numbers with one label column: the named one, else the last one. With
// HeaderLine::kAuto, the first line is a header if the label column is named, or if no field except
// the label is a number. Classes are the labels of the file, sorted by value if all are numbers,
// else by their bytes.
struct LabelledCsvOptions {
  std::string label_column;  // empty: the last one
  char separator = '\0';     // recognised by the first line; ' ': runs of blanks and tabs
  HeaderLine header = HeaderLine::kAuto;
};
Samples read_labelled_csv(const Input& input, const LabelledCsvOptions& options,
                          ThreadPool& threads);

// NumPy's .npy (versions 1 to 3, little-endian whole or floating-point numbers). The first
// dimension counts the samples. Labels are whole numbers in a second file or in the last column;
// classes are the labels of the file in ascending order.
Samples read_npy(const Input& values, const std::optional<Input>& labels);

// A user's own file: a CSV, or a .npy with the label in the last column, recognised by its first
// bytes, not by its name. Throws Error (kUsage) for a label column by name in a .npy file.
Samples read_samples_file(const Input& input, const LabelledCsvOptions& options,
                          ThreadPool& threads);

}  // namespace mcnb
