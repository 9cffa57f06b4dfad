#include <fmt/core.h>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/npy_header.h"
#include "mcnb/data/formats/samples_readers.h"

namespace mcnb {

Samples read_samples_file(const Input& input, const LabelledCsvOptions& options,
                          ThreadPool& threads) {
  if (!is_npy(input)) {
    return read_labelled_csv(input, options, threads);
  }
  if (!options.label_column.empty()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: label_column: expected none for a .npy file, whose last column is "
                            "the label, got \"{}\"",
                            input.name(), options.label_column));
  }
  return read_npy(input, std::nullopt);
}

}  // namespace mcnb
