#include "mcnb/serve/engine/user_map.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <utility>

namespace mcnb {
namespace {

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

std::uint32_t users_per_point(std::size_t users) {
  return static_cast<std::uint32_t>((std::max<std::size_t>(users, 1) - 1) / kMostMapPoints + 1);
}

UserMapJob::UserMapJob(Engine& engine, std::string model, std::string client,
                       std::function<std::string(const UserMap& map)> write)
    : SteppedJob(engine, std::move(model), std::move(client)), write_(std::move(write)) {}

void UserMapJob::step(ControlTask& task, ModelHost& host, std::int64_t) {
  if (!has_arms_) {
    has_arms_ = true;
    task.look_up = [this, view = host.log_view(model(), "")](Storage& storage) {
      map_.arms = recent_arms(storage.log(), view, kRecentArms, kRecentRows);
    };
    return;
  }
  if (host.add_opinions(model(), kStepSeconds, next_, map_.arms, map_.learners, map_.lessons,
                        map_.opinions)) {
    task.look_up = [this](Storage&) {
      project(map_);
      finish(write_(map_));
    };
  }
}

}  // namespace mcnb
