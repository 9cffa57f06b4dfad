// Bodies of requests: what is understood, what is refused, and how the refusal names the field.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "mcnb/logs/features.h"
#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/http/response_json.h"
#include "tests/serve/http/refusal.h"

namespace mcnb::request_json_test {
namespace {

using nlohmann::json;

ModelOptions model_of(std::uint64_t dimension) {
  ModelOptions model;
  model.dimension = dimension;
  return model;
}

RankRequest rank(const std::string& body, const ModelOptions& model = model_of(8)) {
  return read_rank(body, model, Dialect::kOwn);
}

std::string rank_refusal(const std::string& body) {
  return refusal_of([&] { rank(body); });
}

double length_of(std::span<const float> x) {
  double squares = 0.0;
  for (const float value : x) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares);
}

TEST(RequestJson, ReadsARequestWithNumbers) {
  const RankRequest request = rank(
      R"({"eventId":"e","userId":"u",
          "actions":[{"id":"a","features":[3,4]},{"id":"b","features":[0,0]}],
          "excludedActions":["b"],"deferActivation":true,"explain":true})",
      model_of(2));
  EXPECT_EQ(request.event_id, "e");
  EXPECT_EQ(request.user_id, "u");
  EXPECT_EQ(request.actions, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.eligible, (std::vector<bool>{true, false}));
  EXPECT_TRUE(request.deferred);
  EXPECT_TRUE(request.explain);
  EXPECT_FLOAT_EQ(request.features[0], 0.6F);
  EXPECT_FLOAT_EQ(request.features[1], 0.8F);
  EXPECT_EQ(request.features[2], 0.0F);
}

TEST(RequestJson, NamesWhatIsWrong) {
  const std::string one = R"("actions":[{"id":"a"}])";
  EXPECT_EQ(rank_refusal("{"), "400 bad_json ");
  EXPECT_EQ(rank_refusal("[1]"), "400 bad_json ");
  EXPECT_EQ(rank_refusal(R"({"userId":"u"})"), "400 bad_field actions");
  EXPECT_EQ(rank_refusal("{" + one + "}"), "400 bad_field userId");
  EXPECT_EQ(rank_refusal(R"({"userId":"","actions":[{"id":"a"}]})"), "400 bad_field userId");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","action":1,)" + one + "}"), "400 unknown_field action");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","actions":[]})"), "400 bad_field actions");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","actions":[{"id":"a","weight":1}]})"),
            "400 unknown_field actions[0].weight");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","actions":[{"id":"a"},{"id":"a"}]})"),
            "400 bad_field actions[1].id");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","actions":[{"id":"a","features":[1,2]}]})"),
            "400 bad_field actions[0].features");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","actions":[{"id":"a"}],"excludedActions":["a"]})"),
            "400 bad_field excludedActions");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","actions":[{"id":"a"}],"excludedActions":["z"]})"),
            "400 bad_field excludedActions");
  EXPECT_EQ(rank_refusal(R"({"userId":")" + std::string(257, 'u') + R"(",)" + one + "}"),
            "400 bad_field userId");
  std::string deep = R"({"userId":"u","contextFeatures":)";
  for (int i = 0; i < 40; ++i) deep += R"({"a":)";
  deep += "1" + std::string(40, '}') + "," + one + "}";
  EXPECT_EQ(rank_refusal(deep), "400 too_deep ");
  std::string many = R"({"userId":"u","actions":[)";
  for (int i = 0; i < 1001; ++i)
    many += (i > 0 ? R"(,{"id":")" : R"({"id":")") + std::to_string(i) + "\"}";
  EXPECT_EQ(rank_refusal(many + "]}"), "400 bad_field actions");
}

TEST(RequestJson, KeysThatOccurTwiceAreRefusedByName) {
  const std::string one = R"("actions":[{"id":"a"}])";
  EXPECT_EQ(rank_refusal(R"({"userId":"u","userId":"v",)" + one + "}"), "400 bad_field userId");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","actions":[{"id":"a"},{"id":"b","id":"c"}]})"),
            "400 bad_field actions[1].id");
  EXPECT_EQ(rank_refusal(R"({"userId":"u","contextFeatures":[{"a":{"b":1,"c":[{}],"b":1}}],)" +
                         one + "}"),
            "400 bad_field contextFeatures[0].a.b");
  // The same key, written differently.
  EXPECT_EQ(rank_refusal(R"({"userId":"u","user\u0049d":"v",)" + one + "}"),
            "400 bad_field userId");
  EXPECT_EQ(refusal_of([] { read_reward(R"({"value":1,"value":0})", Dialect::kOwn); }),
            "400 bad_field value");
  EXPECT_EQ(refusal_of([] { read_model(R"({"name":"a","options":{"alpha":1,"alpha":2}})"); }),
            "400 bad_field options.alpha");
  EXPECT_EQ(refusal_of([] { read_settings(R"({"epsilon":0.1,"epsilon":0.2})"); }),
            "400 bad_field epsilon");
  EXPECT_EQ(refusal_of([] { read_backup_name(R"({"name":"a","name":"a"})"); }),
            "400 bad_field name");
  // Objects with many members, of which two that are far apart have one name.
  for (const int second : {20, 999}) {
    std::string many = R"({"userId":"u","contextFeatures":{)";
    for (int i = 0; i < 1000; ++i) {
      many += (i > 0 ? ",\"f" : "\"f") + std::to_string(i == second ? 17 : i) + "\":1";
    }
    EXPECT_EQ(rank_refusal(many + "}," + one + "}"), "400 bad_field contextFeatures.f17");
  }
}

TEST(RequestJson, RewardsAreNumbersFromZeroToOne) {
  EXPECT_EQ(read_reward(R"({"value":0.5,"rewardId":"r"})", Dialect::kOwn).reward.value, 0.5F);
  for (const char* body : {R"({"value":1.5})", R"({"value":-0.1})", R"({"value":"1"})", "{}"}) {
    EXPECT_EQ(refusal_of([&] { read_reward(body, Dialect::kOwn); }), "400 bad_field value");
  }
  EXPECT_EQ(refusal_of([] { read_reward(R"({"value":1,"x":1})", Dialect::kOwn); }),
            "400 unknown_field x");
}

TEST(RequestJson, ObjectsAreHashedToUnitLengthAndTellDifferentThingsApart) {
  const auto features = [](const std::string& described, const std::string& context = "null") {
    return rank(R"({"userId":"u","contextFeatures":)" + context +
                    R"(,"actions":[{"id":"a","features":)" + described + "}]}",
                model_of(32))
        .features;
  };
  const std::string red = R"({"color":"red","price":2})";
  EXPECT_NEAR(length_of(features(red)), 1.0, 1e-6);
  EXPECT_EQ(features(red), features(R"({"price":2.0,"color":"red"})"));
  EXPECT_EQ(features(red), features("[" + red + "]"));
  EXPECT_NE(features(red), features(R"({"color":"blue","price":2})"));
  EXPECT_NE(features(R"({"a":{"b":1}})"), features(R"({"a":{"c":1}})"));
  EXPECT_NE(features(R"({"a":true})"), features(R"({"a":false})"));
  EXPECT_NE(features(red), features(red, R"({"hour":3})"));
  EXPECT_EQ(length_of(features("{}")), 0.0);
  EXPECT_EQ(features(R"({"tags":["x","y"]})"), features(R"({"tags":["y","x"]})"));
  EXPECT_NE(features(R"({"at":[1,0]})"), features(R"({"at":[0,1]})"));
  for (const float x : features(R"({"a":1e307,"b":1e307,"c":-1e307})")) {
    EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(RequestJson, NumbersWhoseSumsOrProductsAreNotFiniteAreRefused) {
  std::string six = "{";
  for (int i = 0; i < 6; ++i) {
    six += (i > 0 ? ",\"f" : "\"f") + std::to_string(i) + "\":1e200";
  }
  six += "}";
  // The products are infinite, with both signs: their sum is no number at all.
  const std::string body = R"({"userId":"u","contextFeatures":)" + six +
                           R"(,"actions":[{"id":"a","features":)" + six + "}]}";
  for (const std::uint64_t dimension : {1, 2, 8}) {
    EXPECT_EQ(refusal_of([&] { rank(body, model_of(dimension)); }),
              "400 bad_field actions[0].features");
  }
}

TEST(RequestJson, WhatOneRequestCanAskForIsBounded) {
  const auto actions = [](int count, const std::string& features) {
    std::string text = R"("actions":[)";
    for (int i = 0; i < count; ++i) {
      text += (i > 0 ? R"(,{"id":")" : R"({"id":")") + std::to_string(i) + features;
    }
    return text + "]";
  };
  // Numbers of all actions together.
  EXPECT_EQ(rank(R"({"userId":"u",)" + actions(64, "\"}") + "}", model_of(4096)).actions.size(),
            64U);
  EXPECT_EQ(
      refusal_of([&] { rank(R"({"userId":"u",)" + actions(65, "\"}") + "}", model_of(4096)); }),
      "400 bad_field actions");
  // Features of all actions together.
  std::string context = R"("contextFeatures":{)";
  for (int i = 0; i < 1000; ++i) {
    context += (i > 0 ? ",\"c" : "\"c") + std::to_string(i) + "\":1";
  }
  context += "},";
  EXPECT_EQ(rank_refusal(R"({"userId":"u",)" + context + actions(100, "\"}") + "}"), "");
  EXPECT_EQ(rank_refusal(R"({"userId":"u",)" + context + actions(600, "\"}") + "}"),
            "400 bad_field actions[499].features");
  // Exclusions.
  std::string excluded = R"(,"excludedActions":["0")";
  for (int i = 0; i < 1000; ++i) {
    excluded += ",\"0\"";
  }
  EXPECT_EQ(rank_refusal(R"({"userId":"u",)" + actions(2, "\"}") + excluded + "]}"),
            "400 bad_field excludedActions");
}

TEST(RequestJson, ClientsOfTheRetiredServiceMayWriteNull) {
  const RankRequest request = read_rank(
      R"({"eventId":null,"contextFeatures":null,"excludedActions":null,"deferActivation":null,
          "actions":[{"id":"a","features":null},{"id":"b","features":[{"x":1}]}]})",
      model_of(4), Dialect::kPersonalizer);
  EXPECT_EQ(request.event_id.size(), 32U);
  EXPECT_FALSE(request.deferred);
  EXPECT_EQ(request.eligible, (std::vector<bool>{true, true}));
}

TEST(RequestJson, SignsOfBucketsCancelOut) {
  // Signed hashing keeps inner products, on average: two disjoint sets of features are orthogonal.
  double sum = 0.0;
  for (int i = 0; i < 400; ++i) {
    std::vector<double> a(16);
    std::vector<double> b(16);
    add_tokens(std::vector{text_token(1, "a" + std::to_string(i))}, a);
    add_tokens(std::vector{text_token(1, "b" + std::to_string(i))}, b);
    for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  }
  EXPECT_LT(std::abs(sum / 400), 0.1);
}

TEST(RequestJson, TheRetiredServiceHasNoUsersButAPathToTheirNames) {
  const std::string body =
      R"({"contextFeatures":[{"user":{"id":"ann","age":3}},{"hour":1}],
          "actions":[{"id":"a","features":[{"x":1}]}],"eventId":"e","deferActivation":false})";
  ModelOptions model = model_of(8);
  EXPECT_EQ(read_rank(body, model, Dialect::kPersonalizer).user_id, "everybody");
  model.user_path = "user.id";
  EXPECT_EQ(read_rank(body, model, Dialect::kPersonalizer).user_id, "ann");
  const std::string excluding =
      R"({"actions":[{"id":"a"},{"id":"b"}],"excludedActions":["z","a"]})";
  EXPECT_EQ(read_rank(excluding, model, Dialect::kPersonalizer).eligible,
            (std::vector<bool>{false, true}));
  EXPECT_EQ(refusal_of([&] {
              read_rank(R"({"userId":"u","actions":[{"id":"a"}]})", model, Dialect::kPersonalizer);
            }),
            "400 unknown_field userId");
}

TEST(RequestJson, EventsWithoutAnIdGetOneOfTheirOwn) {
  const std::string body = R"({"userId":"u","actions":[{"id":"a"}]})";
  EXPECT_EQ(rank(body).event_id.size(), 32U);
  EXPECT_NE(rank(body).event_id, rank(body).event_id);
}

TEST(RequestJson, ModelsAreMadeFromEveryOption) {
  const ModelRequest request = read_model(
      R"({"name":"shop","policy":"linucb","options":{"alpha":0.3},"dimension":7,"epsilon":0.2,
          "interactions":false,"mode":"apprentice","aggregation":"sum","userPath":"a.b"})");
  EXPECT_EQ(request.name, "shop");
  const OptionValues values = option_values(request.options);
  EXPECT_EQ(values.at("policy"), "linucb");
  EXPECT_EQ(values.at("options.alpha"), "0.3");
  EXPECT_EQ(values.at("dimension"), "7");
  EXPECT_EQ(values.at("interactions"), "no");
  EXPECT_EQ(values.at("mode"), "apprentice");
  const auto refused = [](const char* body) { return refusal_of([&] { read_model(body); }); };
  EXPECT_EQ(refused(R"({"name":"a b"})"), "400 bad_field name");
  EXPECT_EQ(refused(R"({"name":"a","dimension":0})"), "400 bad_option dimension");
  EXPECT_EQ(refused(R"({"name":"a","what":1})"), "400 bad_option what");
  EXPECT_EQ(refused(R"({"name":"a","policy":"nobody"})"), "400 bad_option ");
  EXPECT_EQ(refused(R"({"name":"a","options":{"gamma":7}})"), "400 bad_option ");
}

TEST(RequestJson, AModelThatNamesNoPolicyGetsTheDefault) {
  const auto policy_of = [](const char* body) { return read_model(body).options.policy.name; };
  EXPECT_EQ(policy_of(R"({"name":"a"})"), "hierarchical");
  EXPECT_EQ(policy_of(R"({"name":"a","dimension":64,"epsilon":0})"), "hierarchical");
  EXPECT_EQ(policy_of(R"({"name":"a","dimension":65})"), "mcnb");
  EXPECT_EQ(policy_of(R"({"name":"a","options":{"width":50}})"), "mcnb") << "as it used to be";
  EXPECT_EQ(policy_of(R"({"name":"a","policy":"hierarchical","options":{"alpha":1}})"),
            "hierarchical");
}

TEST(RequestJson, ErrorsAreJsonWithCodeMessageAndField) {
  const json error = json::parse(write_error({ErrorCode::kBadName, "a \"quote\"\n\x01", "f"}));
  EXPECT_EQ(error.at("error").at("code"), "bad_name");
  EXPECT_EQ(error.at("error").at("message"), "a \"quote\"\n\x01");
  EXPECT_EQ(error.at("error").at("field"), "f");
  EXPECT_TRUE(
      json::parse(write_error({ErrorCode::kUnknownPath, "y"})).at("error").at("field").is_null());
}

}  // namespace
}  // namespace mcnb::request_json_test
