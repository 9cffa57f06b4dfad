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
  std::vector<std::string> class_names;  // empty: the labels of the file
};

// Splits a row by split_csv, or by split_at_blanks if the separator is a blank.
void split_row(std::string_view line, char separator, std::vector<std::string_view>& fields,
               std::string& scratch);

// Reads all remaining lines. Throws Error (kInput) if there are none.
Samples read_dense_text(TextReader& text, const DenseLayout& layout);

}  // namespace mcnb
