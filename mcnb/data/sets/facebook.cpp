#include "mcnb/data/formats/ratings_readers.h"
#include "mcnb/data/sets/data_set_entries.h"

namespace mcnb {

DataSet facebook_data_set() {
  return {.name = "facebook",
          .kind = DataKind::kLinks,
          .about = "friendships of people",
          .home = "https://snap.stanford.edu/data/ego-Facebook.html",
          .licence = "none stated; cite McAuley and Leskovec 2012",
          .folders = {"facebook"},
          .forms = {{{{"facebook_combined.txt"}}}},
          .published = {.rows = 88'234, .users = 4'039},
          .downloads = {{"https://snap.stanford.edu/data/facebook_combined.txt.gz",
                         "facebook_combined.txt.gz",
                         {},
                         "sha256:7cc432d08910b3a940ce90f7da94c13aaf048b04724eafcdf3050b28a"
                         "cc49daf"}},
          .read_ratings = [](const FoundFiles& files, ThreadPool& threads) {
            return read_edge_list(open_file(files, 0), threads);
          }};
}

}  // namespace mcnb
