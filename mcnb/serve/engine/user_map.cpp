#include "mcnb/serve/engine/user_map.h"

#include <Eigen/Eigenvalues>
#include <utility>

namespace mcnb {
namespace {

constexpr std::size_t kMapArms = 12;
constexpr std::uint64_t kMapRows = 2'000;  // of the log, in which the actions are looked for
constexpr double kSliceSeconds = 0.004;

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

void project(UserMap& map) {
  const auto arms = static_cast<Eigen::Index>(map.arms.size());
  const auto points = static_cast<Eigen::Index>(map.learners.size());
  map.x.assign(map.learners.size(), 0.0F);
  map.y.assign(map.learners.size(), 0.0F);
  if (points == 0 || arms == 0) {
    return;
  }
  const Eigen::Map<const RowMajor> opinions(map.opinions.data(), points, arms);
  const Eigen::RowVectorXf mean = opinions.colwise().mean();
  const RowMajor centred = opinions.rowwise() - mean;
  const Eigen::MatrixXd covariance =
      (centred.transpose() * centred).cast<double>() / static_cast<double>(points);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);
  for (int axis = 0; axis < 2 && axis < arms; ++axis) {
    Eigen::VectorXf direction = solver.eigenvectors().col(arms - 1 - axis).cast<float>();
    Eigen::Index largest = 0;
    direction.cwiseAbs().maxCoeff(&largest);
    direction *= direction(largest) < 0.0F ? -1.0F : 1.0F;
    std::vector<float>& out = axis == 0 ? map.x : map.y;
    Eigen::Map<Eigen::VectorXf>(out.data(), points) = centred * direction;
  }
}

UserMapJob::UserMapJob(Engine& engine, std::string model, std::string client,
                       std::function<std::string(const UserMap& map)> write)
    : engine_(engine),
      model_(std::move(model)),
      client_(std::move(client)),
      write_(std::move(write)) {}

bool UserMapJob::start(std::function<void()> done) {
  done_ = std::move(done);
  return submit([this](ControlTask& task, ModelHost& host) {
    task.look_up = [this, view = host.log_view(model_, "")](Storage& storage) {
      map_.arms = recent_arms(storage.log(), view, kMapArms, kMapRows);
    };
  });
}

// Runs `work` on the engine, then goes on.
bool UserMapJob::submit(std::function<void(ControlTask& task, ModelHost& host)> work) {
  auto task = std::make_shared<ControlTask>();
  task->model = model_;
  task->client = client_;
  task->only_reads = true;
  task->seconds = kSliceSeconds;
  task->work = [own = task.get(), work = std::move(work)](ModelHost& host, Storage&, std::int64_t) {
    work(*own, host);
  };
  // The task holds the job until the next one does.
  task->done = [self = shared_from_this(), own = task.get()] {
    self->error_ = own->error;
    if (self->error_ || self->finished_ || !self->go_on()) {
      std::exchange(self->done_, {})();
    }
  };
  const bool taken = engine_.submit(task);
  if (!taken) {
    error_ = task->error;
    task->done = {};
  }
  return taken;
}

bool UserMapJob::go_on() {
  return submit([this](ControlTask& task, ModelHost& host) {
    finished_ = host.add_opinions(model_, kSliceSeconds, next_, map_.arms, map_.learners,
                                  map_.lessons, map_.opinions);
    if (finished_) {
      task.look_up = [this](Storage&) {
        project(map_);
        text_ = write_(map_);
      };
    }
  });
}

std::string UserMapJob::text() const {
  if (error_) {
    throw RequestRefused(*error_);
  }
  return text_;
}

}  // namespace mcnb
