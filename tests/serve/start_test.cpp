// Models that begin with what another model has learned, or with a file.

#include <gtest/gtest.h>

#include <fstream>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/logs/log_writer.h"
#include "mcnb/serve/http/uploads.h"
#include "tests/serve/http/refusal.h"
#include "tests/serve/running_engine.h"

namespace mcnb::start_test {
namespace {

std::shared_ptr<CreateTask> create(cases::RunningEngine& running, const std::string& name,
                                   ModelSource source) {
  auto task = std::make_shared<CreateTask>();
  task->model = name;
  task->source = std::move(source);
  return running.run(task);
}

ModelSource from_model(const std::string& model, const OptionValues& given = {}) {
  ModelSource source;
  source.model = model;
  source.given = given;
  return source;
}

ModelSource from_file(const std::filesystem::path& path, const OptionValues& given = {}) {
  ModelSource source;
  source.file = {path.string(), "the file", std::filesystem::file_size(path), nullptr};
  source.given = given;
  return source;
}

// What a model says about a request: its scores.
std::vector<float> values(cases::RunningEngine& running, const std::string& model,
                          std::uint64_t number, const std::string& user) {
  RankRequest request = cases::request_of(number, user);
  request.event_id = "probe-" + std::to_string(number);
  const auto task = running.rank(request, model);
  EXPECT_FALSE(task->error) << task->error->message;
  std::vector<float> all;
  for (const LoggedAction& action : task->decision.actions) {
    all.push_back(action.value);
  }
  return all;
}

TEST(Start, AModelBeginsAtAnotherAndGoesOnApart) {
  const TemporaryFolder folder;
  std::vector<float> before;
  {
    cases::RunningEngine running(folder.path());
    running.create("m", cases::small_model());
    running.play(0, 30);
    const auto made = create(running, "copy", from_model("m", {{"epsilon", "0.5"}}));
    ASSERT_FALSE(made->error) << made->error->message;
    EXPECT_EQ(made->report.options.epsilon, 0.5);
    EXPECT_EQ(made->report.counts.learned, 30U);
    EXPECT_EQ(made->report.counts.decisions, 0U);
    EXPECT_EQ(made->report.users, 5U);
    before = values(running, "copy", 500, "user-1");
    EXPECT_EQ(before, values(running, "m", 500, "user-1"));
    running.play(30, 60);
    EXPECT_NE(values(running, "m", 501, "user-1"), values(running, "copy", 501, "user-1"));
    EXPECT_EQ(create(running, "copy", from_model("m"))->error->code, ErrorCode::kModelExists);
    EXPECT_EQ(create(running, "other", from_model("nobody"))->error->code,
              ErrorCode::kUnknownModel);
    const auto fixed = create(running, "other", from_model("m", {{"dimension", "5"}}));
    ASSERT_TRUE(fixed->error);
    EXPECT_NE(fixed->error->message.find("dimension"), std::string::npos);
  }
  // From the log alone, too.
  for (const auto& path : cases::snapshots_in(folder.path())) {
    std::filesystem::remove(path);
  }
  cases::RunningEngine again(folder.path());
  EXPECT_EQ(values(again, "copy", 500, "user-1"), before) << "the same event, and the same bits";
}

TEST(Start, AForgottenUserLeavesTheRowFromWhichTheModelBegan) {
  const TemporaryFolder folder;
  const auto starts = [&] {
    return cases::ask_sql(folder.path(), "SELECT count(*) FROM log WHERE kind = 13");
  };
  std::vector<float> before;
  {
    cases::RunningEngine running(folder.path());
    running.create("source", cases::small_model());
    for (std::uint64_t i = 0; i < 20; ++i) {
      running.rank(cases::request_of(i, "user-" + std::to_string(i % 3)), "source");
      running.reward("event-" + std::to_string(i), 1.0F, "source");
    }
    ASSERT_FALSE(create(running, "m", from_model("source"))->error);
    EXPECT_EQ(starts(), 1);
    ASSERT_FALSE(running.forget("user-1")->error);
    EXPECT_EQ(starts(), 0);
    before = values(running, "m", 500, "user-2");
  }
  cases::RunningEngine again(folder.path());
  EXPECT_EQ(values(again, "m", 500, "user-2"), before);
}

// A log in which the second action is the good one.
void write_log(const std::filesystem::path& path) {
  std::ofstream out(path);
  const auto writer = make_log_writer(LogFormat::kJsonLines, out);
  for (int i = 0; i < 200; ++i) {
    writer->write({.event = std::to_string(i),
                   .user = "user-" + std::to_string(i % 4),
                   .actions = {{"a", R"({"name":"a"})"}, {"b", R"({"name":"b"})"}},
                   .chosen = static_cast<std::uint32_t>(i % 2),
                   .probability = 0.5,
                   .probabilities = {0.5, 0.5},
                   .reward = static_cast<double>(i % 2)});
  }
  writer->finish();
}

TEST(Start, AModelLearnsALogFirst) {
  const TemporaryFolder folder;
  write_log(folder / "log.jsonl");
  for (const char* const policy : {"linucb", "hierarchical", "mcnb"}) {
    cases::RunningEngine running(folder / policy);
    const auto made =
        create(running, "m",
               from_file(folder / "log.jsonl",
                         {{"policy", policy}, {"dimension", "16"}, {"epsilon", "0"}}));
    ASSERT_FALSE(made->error) << made->error->message;
    EXPECT_EQ(made->report.users, 4U);
    const RankRequest request = read_rank(
        R"({"userId":"user-1","actions":[{"id":"a","features":{"name":"a"}},
            {"id":"b","features":{"name":"b"}}]})",
        made->report.options, Dialect::kOwn);
    EXPECT_EQ(running.rank(request)->decision.chosen, 1U) << policy;
  }
}

TEST(Start, AFileThatIsNeitherIsNamed) {
  const TemporaryFolder folder;
  put_file(folder / "file", "neither\n");
  cases::RunningEngine running(folder / "data");
  const auto refused = create(running, "m", from_file(folder / "file"));
  ASSERT_TRUE(refused->error);
  EXPECT_EQ(refused->error->code, ErrorCode::kBadOption);
  EXPECT_EQ(refused->error->message.find("the file:1"), 0U) << refused->error->message;
  EXPECT_TRUE(running.engine().reports().empty());
  running.create("m", cases::small_model());  // the name is free
}

TEST(Uploads, AreFilesForAnHourAndOnlySoMany) {
  Uploads uploads;
  const std::string name = uploads.add("some bytes");
  EXPECT_TRUE(Uploads::is_name(name));
  EXPECT_FALSE(is_model_name(name));
  {
    const std::optional<StartFile> file = uploads.find(name);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->bytes, 10U);
    EXPECT_EQ(file_contents(file->path), "some bytes");
    EXPECT_TRUE(uploads.remove(name));
    EXPECT_EQ(file_contents(file->path), "some bytes") << "whoever uses it keeps it";
  }
  EXPECT_FALSE(uploads.find(name));
  EXPECT_FALSE(uploads.remove(name));
  EXPECT_EQ(refusal_of([&] { uploads.add(""); }), "400 bad_field body");
}

}  // namespace
}  // namespace mcnb::start_test
