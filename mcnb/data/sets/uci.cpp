#include "mcnb/data/formats/dense_text.h"
#include "mcnb/data/formats/samples_readers.h"

namespace mcnb {

Samples read_shuttle(const Input& input, ThreadPool& threads) {
  TextReader text(input, threads);
  return read_dense_text(text, {.separator = ' ',
                                .columns = 10,
                                .label = 9,
                                .class_names = {"1", "2", "3", "4", "5", "6", "7"}});
}

Samples read_magic_telescope(const Input& input, ThreadPool& threads) {
  TextReader text(input, threads);
  return read_dense_text(text,
                         {.separator = ',', .columns = 11, .label = 10, .class_names = {"g", "h"}});
}

}  // namespace mcnb
