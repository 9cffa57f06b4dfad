#pragma once

#include <string>
#include <vector>

#include "mcnb/serve/engine/engine.h"

namespace mcnb {

// The time series as JSON. `now`: milliseconds since 1970.
std::string write_all_series(const std::vector<ModelReport>& models, const SeriesBook& series,
                             const Resolution& resolution, std::int64_t since, std::int64_t now,
                             double memory_limit);
// With the actions and the probabilities of the answers.
std::string write_model_series(const ModelReport& model, const SeriesBook& series,
                               const Resolution& resolution, std::int64_t since, std::int64_t now);
std::string write_settings_history(const ModelReport& model,
                                   const std::vector<SettingsSeen>& changes);

}  // namespace mcnb
