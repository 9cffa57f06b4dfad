#pragma once

#include <cstddef>

#include "mcnb/data/formats/input.h"
#include "mcnb/data/sets/catalogue.h"

namespace mcnb {

// The entries of the catalogue, each in the file of its data set or kind of data. A new data set is
// one such function, its declaration here, and a line in catalogue.cpp.
DataSet amazon_data_set();
DataSet cifar10_data_set();
DataSet emnist_letters_data_set();
DataSet facebook_data_set();
DataSet fashion_mnist_data_set();
DataSet magic_telescope_data_set();
DataSet mnist_data_set();
DataSet movielens_data_set();
DataSet movielens_small_data_set();
DataSet mushroom_data_set();
DataSet notmnist_data_set();
DataSet shuttle_data_set();
DataSet yelp_data_set();

inline constexpr const char* kResearchOnly = "research use; not to be passed on";

// For the read functions of entries: the file at `index` of the form.
inline Input open_file(const FoundFiles& files, std::size_t index) {
  return Input::file(files.paths[index]);
}
inline bool is_there(const FoundFiles& files, std::size_t index) {
  return !files.paths[index].empty();
}

}  // namespace mcnb
