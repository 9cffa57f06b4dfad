#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mcnb/data/formats/text_reader.h"
#include "mcnb/data/samples.h"

namespace mcnb {

// How rows of numbers with a label are written.
struct DenseLayout {
  char separator = ',';                  // ' ': runs of blanks and tabs
  std::size_t columns = 0;               // of every row, the label among them
  std::size_t label = 0;                 // its column
  std::vector<std::string> class_names;  // empty: the labels that are met
};

// All fields of a row; as split_csv and split_at_blanks have it.
void split_row(std::string_view line, char separator, std::vector<std::string_view>& fields,
               std::string& scratch);

// Reads all lines that are left. Throws Error (kInput) where there are none.
Samples read_dense_text(TextReader& text, const DenseLayout& layout);

}  // namespace mcnb
