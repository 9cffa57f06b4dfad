#pragma once

#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/server.h"

namespace mcnb {

// Brings the models to what the configuration says: makes those that are missing, from their files
// if they have some, and a model named default if it lists none and there are none. Of existing
// models it changes the settings for which the configuration names another value; for options that
// are fixed it logs a warning with both values, and the model keeps its own. Adds the challengers
// that a model lacks. Throws Error (kUsage) naming the model.
void configure_models(Engine& engine, const ServerOptions& options);

}  // namespace mcnb
