#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mcnb/base/thread_pool.h"
#include "mcnb/serve/engine/saved_state.h"
#include "mcnb/serve/model/model.h"

namespace mcnb {

// A file from which a model can begin: a saved policy, or a log that it learns.
struct StartFile {
  std::string path;
  std::string name;  // for error messages
  std::uint64_t bytes = 0;
  std::shared_ptr<const void> owner;  // of what the path names, such as an upload
};

// Where a new model begins: at another model, or at a file.
struct ModelSource {
  std::string model;  // empty: `file`
  StartFile file;
  OptionValues given;  // the options that the caller names
  // Of `model`, filled in when the new one is planned.
  std::shared_ptr<SavedState> state;
  std::uint64_t store_id = 0;
  ModelOptions options;
};

struct StartedModel {
  std::unique_ptr<Model> model;  // has applied `start` as its first event
  Start start;
};

// Makes a model of a source, which may take long; on any thread. `options` are those that were
// planned; a saved policy brings its own policy and dimension. Throws Error: kUsage for options
// that do not fit the source, kInput or kCorrupt for a file that cannot be read.
StartedModel start_model(const ModelSource& source, const ModelOptions& options, std::int64_t time,
                         ThreadPool& threads);

}  // namespace mcnb
