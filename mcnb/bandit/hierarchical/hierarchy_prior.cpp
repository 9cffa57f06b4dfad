#include "mcnb/bandit/hierarchical/hierarchy_prior.h"

#include <algorithm>
#include <cmath>

#include "mcnb/bandit/hierarchical/matrix_state.h"

namespace mcnb {

bool HierarchyScales::operator==(const HierarchyScales& other) const {
  return shared == other.shared && own == other.own && memory == other.memory &&
         correlation.rows() == other.correlation.rows() && correlation == other.correlation;
}

void HierarchyScales::save(StateWriter& writer) const {
  writer.write_all(std::span<const double>(shared));
  writer.write_all(std::span<const double>(own));
  writer.write(memory);
  write_matrix(writer, correlation);
}

void HierarchyScales::load(StateReader& reader) {
  for (ByFeatureGroup<double>* by_group : {&shared, &own}) {
    const std::vector<double> values = reader.read_all<double>(kFeatureGroups);
    const bool sound = values.size() == kFeatureGroups &&
                       std::ranges::all_of(values, [](double v) { return v >= 0.0 && v < 1e12; });
    if (!sound) {
      reader.fail("the scales are not those of these features");
    }
    std::ranges::copy(values, by_group->begin());
  }
  memory = reader.read<double>();
  if (!(memory >= 0.0 && memory < 1e12)) {
    reader.fail("the memory's variance is not a variance");
  }
  read_matrix(reader, correlation);
}

HierarchyPrior prior_of(const FeatureMap& map, const HierarchyScales& scales, double noise) {
  HierarchyPrior prior{.noise = noise, .memory = scales.memory};
  const std::span<const FeatureGroup> groups = map.groups();
  prior.shared.resize(signed_size(groups.size()));
  Eigen::VectorXd deviations(signed_size(map.own_size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto group = static_cast<std::size_t>(groups[i]);
    prior.shared[signed_size(i)] = scales.shared[group];
    if (i < map.own_size()) {
      deviations[signed_size(i)] = std::sqrt(scales.own[group]);
    }
  }
  prior.own = deviations.asDiagonal() * scales.correlation * deviations.asDiagonal();
  prior.own_factor = prior.own.llt().matrixL();
  return prior;
}

}  // namespace mcnb
