#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/response_json.h"

namespace mcnb {

Reply Handlers::add_challenger(const Call& call) const {
  auto task = std::make_shared<CreateTask>();
  task->model = call.model;
  task->challenger = read_challenger(call.body);
  return submit(call, task, [task] { return write_model(task->report); });
}

Reply Handlers::remove_challenger(const Call& call) const {
  return on_engine(call, Use::kChange,
                   [model = call.model, id = call.id](const EngineThread& engine) {
                     engine.host.remove_challenger(model, id, engine.time);
                     return std::string();
                   });
}

Reply Handlers::promote(const Call& call) const {
  return show_after(
      call, Use::kChange,
      [model = call.model, wanted = read_promotion(call.body)](const EngineThread& engine) {
        engine.host.promote(model, wanted.challenger, wanted.keep_as, engine.time);
      });
}

}  // namespace mcnb
