// Fits of the policies' priors to all rewards, beside the requests.

#include "mcnb/serve/engine/model_host.h"

namespace mcnb {
namespace {

// Of the seconds that a fit takes: replay computes only what follows from its result.
constexpr double kReplayedShareOfFit = 0.25;

}  // namespace

std::optional<ModelHost::OwnedFit> ModelHost::owner_of(const BackgroundFit& fit) {
  for (auto& [name, hosted] : models_) {
    for (const Model::Fit& one : hosted.model->fits_in_progress()) {
      if (one.fit.get() == &fit) {
        return OwnedFit{&hosted, one.challenger};
      }
    }
  }
  return std::nullopt;
}

std::shared_ptr<BackgroundFit> ModelHost::next_fit(std::int64_t time) {
  // The models take turns.
  auto next = models_.upper_bound(last_fitted_);
  for (std::size_t i = 0; i < models_.size(); ++i, ++next) {
    next = next == models_.end() ? models_.begin() : next;
    Hosted& hosted = next->second;
    if (is_busy(hosted.name)) {
      continue;
    }
    if (const std::optional<std::string> due = hosted.model->due_fit()) {
      log(hosted, FitBegin{*due}, time);
    }
    if (const std::vector<Model::Fit> fits = hosted.model->fits_in_progress(); !fits.empty()) {
      last_fitted_ = hosted.name;
      return fits.front().fit;
    }
  }
  return nullptr;
}

bool ModelHost::finish_fit(const BackgroundFit& fit, const std::string& result, double seconds,
                           std::int64_t time) {
  const std::optional<OwnedFit> own = owner_of(fit);
  if (!own) {
    return false;
  }
  log(*own->hosted, FitResult{result, own->challenger}, time);
  own->hosted->seconds_since_snapshot += kReplayedShareOfFit * seconds;
  return true;
}

}  // namespace mcnb
