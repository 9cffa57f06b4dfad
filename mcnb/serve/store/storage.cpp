#include "mcnb/serve/store/storage.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/storage/postgres.h"

namespace mcnb {

void Lease::require() const {
  if (const std::string lost = loss(); !lost.empty()) {
    throw Error(ErrorKind::kSystem, lost);
  }
}

std::string text_of(const Damage& damage) {
  if (damage.first == 0) {
    return damage.what;
  }
  if (damage.first == damage.last) {
    return fmt::format("model {}, log row {}: {}", damage.model, damage.first, damage.what);
  }
  return fmt::format("model {}, log rows {} to {}: {}", damage.model, damage.first, damage.last,
                     damage.what);
}

void SnapshotStore::write(std::uint32_t model, std::uint64_t position, const std::string& bytes) {
  std::string_view left = bytes;
  write(model, position, [&] { return std::exchange(left, {}); });
}

std::vector<std::uint32_t> Storage::leftover_models() {
  // Ids beyond the highest were never this log's: such snapshots are somebody else's.
  const std::uint32_t highest = log().highest_model_id();
  std::set<std::uint32_t> left;
  for (const auto& found : {log().models_with_rows(), snapshots().models()}) {
    left.insert(found.begin(), found.end());
  }
  left.erase(left.upper_bound(highest), left.end());
  for (const StoredModel& model : log().models()) {
    left.erase(model.id);
  }
  return {left.begin(), left.end()};
}

void Storage::erase_model(std::uint32_t model) {
  log().erase_rows(model);
  snapshots().remove_before(model, ~std::uint64_t{0});
}

void Storage::erase_user(const Erasure& erasure) {
  const std::vector<StoredModel> models = log().models();
  const std::vector<std::uint64_t> positions = snapshots().positions(erasure.model);
  if (std::ranges::count(models, erasure.model, &StoredModel::id) > 0 &&
      (positions.empty() || positions.back() < erasure.until)) {
    throw Error(ErrorKind::kSystem,
                fmt::format("model {}: the snapshot without the forgotten user could not be "
                            "written: send the request again",
                            erasure.model));
  }
  log().erase_user(erasure);
}

std::unique_ptr<Storage> open_storage(const std::string& name, StorageAccess access,
                                      const StoreOptions& options) {
  return is_postgres_url(name) ? open_postgres(name, access, options)
                               : open_data_folder(name, access, options);
}

}  // namespace mcnb
