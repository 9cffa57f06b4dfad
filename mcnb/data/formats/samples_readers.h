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
// Error (kInput) naming the place and what was expected there. Sizes that a file's header claims
// are believed only as far as data really follows.

// IDX (MNIST and its relatives): unsigned bytes; the first dimension counts the samples, the others
// make up one sample. Labels are a second file.
struct IdxOptions {
  bool transpose = false;                // EMNIST: columns of the picture come first
  std::uint32_t first_label = 0;         // EMNIST Letters: 1
  std::vector<std::string> class_names;  // empty: the labels from the first to the largest met
};
Samples read_idx(const Input& images, const Input& labels, const IdxOptions& options = {});

// One binary batch of CIFAR-10: records of a label and 3 x 32 x 32 bytes. The names are ten.
Samples read_cifar10_batch(const Input& batch, const std::vector<std::string>& class_names);

// Batches, one after the other, and the names of the classes: a text of ten lines, as
// batches.meta.txt is. Requires at least one batch.
Samples read_cifar10(const Input& class_names, std::span<const Input> batches);

// notMNIST: PNG pictures, 28 x 28, in folders A to J, which lie in the folder or .tar or .tar.gz
// archive given, at any depth. Ordered by letter and file name. Pictures that cannot be read (the
// public archives hold two) and files elsewhere are left out and reported.
inline constexpr std::string_view kNotMnistLetters = "ABCDEFGHIJ";  // its classes
Samples read_notmnist(const std::filesystem::path& folder_or_archive, ThreadPool& threads);
Samples read_notmnist_archive(const Input& archive, ThreadPool& threads);

// UCI Shuttle (Statlog): nine numbers and the class, 1 to 7, parted by blanks.
Samples read_shuttle(const Input& input, ThreadPool& threads);

// UCI Mushroom: the class (e or p) and 22 letters. One number per attribute and value that its
// documentation lists, 126 in all, 1 where the sample has the value ('?' is one); so any part of
// the file has the same columns.
Samples read_mushroom(const Input& input, ThreadPool& threads);

// UCI MAGIC gamma telescope: ten numbers and the class, g or h.
Samples read_magic_telescope(const Input& input, ThreadPool& threads);

// Any CSV of numbers with one label column: that of the given name, else the last one. Unless told,
// the first line is a header where the label has a name, or where no field beside the label is a
// number.
// Classes are the labels met: in the order of numbers where all are numbers, else in that of their
// bytes.
struct LabelledCsvOptions {
  std::string label_column;  // empty: the last one
  char separator = ',';      // ' ': runs of blanks and tabs
  HeaderLine header = HeaderLine::kAuto;
};
Samples read_labelled_csv(const Input& input, const LabelledCsvOptions& options,
                          ThreadPool& threads);

// NumPy's .npy (versions 1 to 3, little-endian whole or floating-point numbers). The first
// dimension counts the samples. Labels, whole numbers, are a second file or the last column;
// classes are the labels met, in order.
Samples read_npy(const Input& values, const std::optional<Input>& labels);

// A CSV, or .npy with the label in the last column, told apart by the first bytes, not by the name.
// Throws Error (kUsage) for a label by name in a .npy file.
Samples read_own_samples(const Input& input, const LabelledCsvOptions& options,
                         ThreadPool& threads);

}  // namespace mcnb
