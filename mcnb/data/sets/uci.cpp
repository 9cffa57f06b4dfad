#include "mcnb/data/formats/dense_text.h"
#include "mcnb/data/formats/samples_readers.h"
#include "mcnb/data/sets/data_set_entries.h"

namespace mcnb {
namespace {

Samples read_shuttle_files(const FoundFiles& files, ThreadPool& threads) {
  std::vector<Samples> parts;
  parts.push_back(read_shuttle(open_file(files, 0), threads));
  if (is_there(files, 1)) {
    parts.push_back(read_shuttle(open_file(files, 1), threads));
  }
  return join_samples(std::move(parts));
}

}  // namespace

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

DataSet magic_telescope_data_set() {
  return {.name = "magic-telescope",
          .kind = DataKind::kSamples,
          .about = "showers that a telescope saw: gamma rays or hadrons, ten numbers",
          .home = "https://archive.ics.uci.edu/dataset/159/magic+gamma+telescope",
          .licence = "CC BY 4.0",
          .folders = {"magic-telescope"},
          .forms = {{{{"magic04.data"}}}},
          .published = {.rows = 19'020, .classes = 2},
          .downloads = {{"https://archive.ics.uci.edu/static/public/159/"
                         "magic+gamma+telescope.zip",
                         "",
                         {{"magic04.data"}},
                         ""}},
          .read_samples = [](const FoundFiles& files, ThreadPool& threads) {
            return read_magic_telescope(open_file(files, 0), threads);
          }};
}

DataSet shuttle_data_set() {
  return {.name = "shuttle",
          .kind = DataKind::kSamples,
          .about = "readings of a space shuttle's radiators, nine numbers, seven states",
          .home = "https://archive.ics.uci.edu/dataset/148/statlog+shuttle",
          .licence = "CC BY 4.0",
          .folders = {"shuttle"},
          .forms = {{{{"shuttle.trn"}}, {{"shuttle.tst"}, Need::kOptional}}},
          .published = {.rows = 58'000, .classes = 7},
          .downloads = {{"https://archive.ics.uci.edu/static/public/148/statlog+shuttle.zip",
                         "",
                         {{"shuttle.trn",
                           "sha256:87b24ee9fb5137e1d417659cf905d84d0e15342bbaa60770f1ae83da"
                           "1a38200a"},
                          {"shuttle.tst",
                           "sha256:f776934a628d9b94c482cb058a76ddaa63823e0f74aec065813c9dff"
                           "3b89d661"}},
                         ""}},
          .read_samples = read_shuttle_files};
}

}  // namespace mcnb
