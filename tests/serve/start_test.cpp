// Models that begin with what another model has learned, or with a file.

#include <gtest/gtest.h>

#include <fstream>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/logs/log_writer.h"
#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/http/uploads.h"
#include "tests/serve/http/refusal.h"
#include "tests/serve/running_engine.h"
#include "tests/serve/server_program.h"

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

TEST(Start, ASavedPolicyBringsItsOptionsAndItsUsers) {
  const TemporaryFolder folder;
  ThreadPool threads(1);
  const PolicySpec spec = parse_policy("linucb:users=each:alpha=0.3");
  const PolicySetup setup{
      .inputs = 4, .users = 2, .seed = 7, .threads = &threads, .user_features = {}};
  const std::unique_ptr<Policy> policy = make_policy(spec, setup);
  const auto arm = [](const RankRequest& request, std::uint32_t index, std::uint32_t user) {
    return Arm{.index = ArmIndex{index},
               .user = UserId{user},
               .features = {std::span(request.features).subspan(index * std::size_t{4}, 4)}};
  };
  for (std::uint64_t i = 0; i < 40; ++i) {
    const RankRequest request = cases::request_of(i, "");
    const auto user = static_cast<std::uint32_t>(i % 2);
    policy->learn(RoundId{i}, arm(request, 0, user), user == 0 ? 0.0F : 0.9F);
  }
  const std::filesystem::path path = folder / "policy";
  save_trained_policy(path.string(), spec, setup, *policy, {{"bob", "ann"}, 40});
  const SavedPolicy saved = load_saved_policy(path.string(), threads);
  cases::RunningEngine running(folder / "data");
  const auto made = create(running, "m", from_file(path, {{"epsilon", "0"}}));
  ASSERT_FALSE(made->error) << made->error->message;
  EXPECT_EQ(made->report.options.policy.name, "linucb");
  EXPECT_EQ(made->report.options.dimension, 4U);
  EXPECT_EQ(made->report.options.seed, 7U);
  EXPECT_EQ(made->report.users, 2U);
  for (const auto& [name, user] :
       std::vector<std::pair<std::string, std::uint32_t>>{{"bob", 0U}, {"ann", 1U}}) {
    const RankRequest request = cases::request_of(500 + user, name);
    Round round;
    for (std::uint32_t i = 0; i < 3; ++i) {
      round.arms.push_back(arm(request, i, user));
    }
    const std::vector<Score> scores = saved.policy->scores(round);
    const auto task = running.rank(request);
    ASSERT_FALSE(task->error) << task->error->message;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(task->decision.actions[i].estimate, static_cast<float>(scores[i].estimate)) << name;
    }
  }
  // What contradicts the file is refused by name.
  for (const auto& [option, text] : OptionValues{
           {"policy", "mcnb"}, {"dimension", "8"}, {"seed", "9"}, {"options.alpha", "1"}}) {
    const auto refused = create(running, "other", from_file(path, {{option, text}}));
    ASSERT_TRUE(refused->error) << option;
    EXPECT_NE(refused->error->message.find(option), std::string::npos) << refused->error->message;
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
  for (const char* const from : {"5", "\"\"", "null"}) {
    const std::string body = R"({"name":"other","from":)" + std::string(from) + "}";
    EXPECT_EQ(refusal_of([&] { read_model(body); }), "400 bad_field from") << from;
  }
}

TEST(Start, AFileNamedOnTheCommandLineMakesAModelOnce) {
  const TemporaryFolder folder;
  write_log(folder / "log.jsonl");
  const std::string import = "shop=" + (folder / "log.jsonl").string();
  for (int start = 0; start < 2; ++start) {
    ServerProgram server(folder / "data", {"--import", import});
    const std::string shown = HttpClient(server.port()).get("/v1/models/shop").body;
    EXPECT_NE(shown.find("\"learned\":200"), std::string::npos) << shown;
    EXPECT_EQ(server.stop().status, 0);
  }
  for (const std::string bad : {"shop", "=file", "shop=", "a b=file", "shop=/nowhere/file"}) {
    const ProgramOutcome outcome = ServerProgram(folder / "other", {"--import", bad}).wait();
    EXPECT_EQ(outcome.status, 2) << bad << outcome.errors;
    EXPECT_NE(outcome.errors.find("--import"), std::string::npos) << outcome.errors;
  }
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
