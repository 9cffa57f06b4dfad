#include "mcnb/serve/http/openapi.h"

namespace mcnb {

// The schemas of the bodies that request_json.cpp reads and response_json.cpp writes. A test
// compares them with the responses of the real service.
const char* const kOpenApiSchemas = R"json(
"Error": {
 "type": "object",
 "required": ["error"],
 "example": {
  "error": {
   "code": "unknown_event",
   "message": "there is no event \"e1\"",
   "field": "eventId"}},
 "properties": {
  "error": {
   "type": "object",
   "properties": {
    "code": {"$ref": "#/components/schemas/ErrorCode"},
    "message": {"type": "string"},
    "field": {"type": "string", "nullable": true}}}}},
"Status": {
 "type": "object",
 "required": ["status"],
 "properties": {
  "status": {"type": "string", "enum": ["alive", "ready"]},
  "damage": {"type": "array", "items": {
   "type": "object",
   "properties": {
    "model": {"type": "integer"},
    "first": {"type": "integer"},
    "last": {"type": "integer"},
    "what": {"type": "string"}}}}}},
"OpenApi": {"type": "object", "additionalProperties": true},
"Page": {"type": "string"},
"MeanReward": {
 "description": "a mean with its interval of 95 %, which are missing for too few rewards",
 "type": "object",
 "required": ["sums"],
 "properties": {
  "value": {"type": "number"},
  "low": {"type": "number"},
  "high": {"type": "number"},
  "sums": {
   "description": "of w, w w, w r, w w r and w w r r, over rewards r with weights w",
   "type": "array",
   "items": {"type": "number"}}}},
"SeriesBucket": {
 "description": "settled, rewarded and the means belong to the time of the decision",
 "type": "object",
 "required": ["time", "decisions", "explored", "rewards", "late", "learned", "refused", "steps",
  "movement", "settled", "rewarded", "reward", "random", "first", "effectiveSize"],
 "properties": {
  "time": {"type": "integer"},
  "decisions": {"type": "integer"},
  "explored": {"type": "integer"},
  "rewards": {"type": "integer"},
  "late": {"type": "integer"},
  "learned": {"type": "integer"},
  "refused": {"type": "integer"},
  "steps": {"description": "backward passes of networks", "type": "integer"},
  "movement": {
   "description": "distance of the meta-learner from where it began; 0 for policies without one",
   "type": "number"},
  "settled": {"type": "integer"},
  "rewarded": {"type": "integer"},
  "reward": {"$ref": "#/components/schemas/MeanReward"},
  "random": {"$ref": "#/components/schemas/MeanReward"},
  "first": {"$ref": "#/components/schemas/MeanReward"},
  "effectiveSize": {"type": "number"},
  "probabilities": {"type": "array", "items": {"type": "integer"}},
  "actions": {"type": "array", "items": {
   "type": "object",
   "properties": {
    "id": {"description": "missing for all other actions together", "type": "string"},
    "decisions": {"type": "integer"},
    "settled": {"type": "integer"},
    "rewards": {"type": "number"}}}}}},
"ModelSeries": {
 "type": "object",
 "required": ["name", "settledUntil", "totals", "buckets"],
 "properties": {
  "name": {"type": "string"},
  "settledUntil": {"type": "integer"},
  "totals": {
   "type": "object",
   "properties": {
    "decisions": {"type": "integer"},
    "learned": {"type": "integer"},
    "pending": {"type": "integer"},
    "users": {"type": "integer"}}},
  "buckets": {"type": "array", "items": {"$ref": "#/components/schemas/SeriesBucket"}}}},
"SeriesHead": {
 "type": "object",
 "required": ["resolution", "seconds", "now"],
 "properties": {
  "resolution": {"type": "string", "enum": ["10s", "5m", "1h", "1d"]},
  "seconds": {"type": "integer"},
  "now": {"type": "integer"}}},
"Series": {
 "allOf": [
  {"$ref": "#/components/schemas/SeriesHead"},
  {"$ref": "#/components/schemas/ModelSeries"}]},
"AllSeries": {
 "allOf": [
  {"$ref": "#/components/schemas/SeriesHead"},
  {
   "type": "object",
   "properties": {
    "memoryLimitBytes": {"type": "integer"},
    "service": {"type": "array", "items": {
     "type": "object",
     "properties": {
      "time": {"type": "integer"},
      "requests": {"type": "integer"},
      "errors": {"type": "integer"},
      "p50": {"type": "number"},
      "p99": {"type": "number"},
      "logBytes": {"type": "integer"},
      "memoryBytes": {"type": "integer"}}}},
    "models": {"type": "array", "items": {"$ref": "#/components/schemas/ModelSeries"}}}}]},
"UserMap": {
 "type": "object",
 "required": ["actions", "learners", "lessons", "x", "y", "low", "high", "opinions"],
 "properties": {
  "actions": {"type": "array", "items": {"type": "string"}},
  "learners": {"type": "array", "items": {"type": "integer"}},
  "lessons": {"type": "array", "items": {"type": "integer"}},
  "x": {"type": "array", "items": {"type": "number"}},
  "y": {"type": "array", "items": {"type": "number"}},
  "low": {"type": "number"},
  "high": {"type": "number"},
  "opinions": {
   "description": "two hexadecimal digits for each learner and action, from low (00) to high (ff)",
   "type": "string"}}},
"UserEstimates": {
 "type": "object",
 "required": ["userId", "explain"],
 "properties": {
  "userId": {"type": "string"},
  "preferredActionId": {"description": "missing if there was no decision lately", "type": "string"},
  "explain": {"type": "array", "items": {"$ref": "#/components/schemas/Explanation"}}}},
"EventReward": {
 "type": "object",
 "required": ["value", "rewardId", "time"],
 "properties": {
  "value": {"type": "number"},
  "rewardId": {"type": "string"},
  "time": {"type": "integer"}}},
"Events": {
 "type": "object",
 "required": ["events"],
 "properties": {
  "events": {"type": "array", "items": {
   "type": "object",
   "properties": {
    "eventId": {"type": "string"},
    "slot": {"type": "string", "description": "of an event with slots"},
    "userId": {"type": "string"},
    "time": {"type": "integer"},
    "rewardActionId": {"type": "string"},
    "propensity": {"type": "number"},
    "explored": {"type": "boolean"},
    "activated": {"type": "boolean"},
    "rewards": {"type": "array", "items": {"$ref": "#/components/schemas/EventReward"}}}}}}},
"Behind": {
 "type": "object",
 "required": ["clusters", "memberCount", "members", "samples"],
 "properties": {
  "clusters": {"description": "whether the policy clusters users", "type": "boolean"},
  "memberCount": {"type": "integer"},
  "members": {
   "description": "the first hundred; without userId if no recent event has it",
   "type": "array",
   "items": {
    "type": "object",
    "required": ["learner"],
    "properties": {"learner": {"type": "integer"}, "userId": {"type": "string"}}}},
  "samples": {"type": "array", "items": {
   "type": "object",
   "required": ["reward", "moved"],
   "properties": {
    "reward": {"type": "number"},
    "moved": {"description": "how much less the policy would expect without it", "type": "number"},
    "eventId": {"type": "string"},
    "userId": {"type": "string"},
    "rewardActionId": {"type": "string"}}}}}},
"SettingsHistory": {
 "type": "object",
 "required": ["settings", "changes"],
 "properties": {
  "settings": {"$ref": "#/components/schemas/Settings"},
  "changes": {"type": "array", "items": {
   "type": "object",
   "properties": {
    "time": {"type": "integer"},
    "settings": {"type": "string"}}}}}},
"Metrics": {"type": "string", "description": "the text format of Prometheus"},
"Features": {
 "description": "as many numbers as the model's dimension, or objects that are hashed",
 "example": {"kind": "drink", "price": 0.2, "tags": ["hot", "green"]},
 "oneOf": [
  {"type": "array", "items": {"type": "number"}},
  {"type": "object", "additionalProperties": true},
  {"type": "array", "items": {"type": "object", "additionalProperties": true}}]},
"RankRequest": {
 "type": "object",
 "example": {
  "userId": "ann",
  "contextFeatures": {"daytime": "morning"},
  "actions": [{"id": "tea", "features": {"kind": "drink"}}, {"id": "bread"}]},
 "required": ["userId", "actions"],
 "properties": {
  "eventId": {"type": "string", "maxLength": 256},
  "userId": {"type": "string", "maxLength": 256},
  "actions": {
   "type": "array",
   "minItems": 1,
   "maxItems": 1000,
   "items": {
    "type": "object",
    "required": ["id"],
    "properties": {
     "id": {"type": "string"},
     "features": {"$ref": "#/components/schemas/Features"}}}},
  "contextFeatures": {"$ref": "#/components/schemas/Features"},
  "excludedActions": {"type": "array", "maxItems": 1000, "items": {"type": "string"}},
  "deferActivation": {"type": "boolean"},
  "explain": {"type": "boolean"},
  "slots": {
   "description": "several actions are chosen, one for each; or how many",
   "oneOf": [
    {"type": "integer", "minimum": 1, "maximum": 100},
    {
     "type": "array",
     "minItems": 1,
     "maxItems": 100,
     "items": {"$ref": "#/components/schemas/Slot"}}]}}},
"Slot": {
 "type": "object",
 "required": ["id"],
 "properties": {
  "id": {"type": "string", "maxLength": 255},
  "features": {"$ref": "#/components/schemas/Features"},
  "excludedActions": {"type": "array", "maxItems": 1000, "items": {"type": "string"}},
  "baselineAction": {"type": "string"}}},
"SlotDecision": {
 "type": "object",
 "required": ["id", "rewardActionId", "probability", "ranking"],
 "properties": {
  "id": {"type": "string"},
  "rewardActionId": {"type": "string"},
  "probability": {
   "type": "number",
   "description": "of this action, given what the slots before show"},
  "ranking": {
   "type": "array",
   "items": {
    "type": "object",
    "properties": {"id": {"type": "string"}, "probability": {"type": "number"}}}},
  "waiting": {"type": "boolean"},
  "preferredActionId": {"type": "string"},
  "propensity": {"type": "number"},
  "activated": {"type": "boolean"},
  "rewards": {"type": "array", "items": {"$ref": "#/components/schemas/EventReward"}},
  "explain": {"type": "array", "items": {"$ref": "#/components/schemas/Explanation"}}}},
"Decision": {
 "type": "object",
 "required": ["eventId", "rewardActionId", "ranking"],
 "properties": {
  "eventId": {"type": "string"},
  "rewardActionId": {"type": "string"},
  "ranking": {
   "type": "array",
   "items": {
    "type": "object",
    "properties": {"id": {"type": "string"}, "probability": {"type": "number"}}}},
  "modelVersion": {"type": "integer"},
  "explain": {"type": "array", "items": {"$ref": "#/components/schemas/Explanation"}},
  "slots": {
   "description": "if the request has slots; the fields beside it are those of the first",
   "type": "array",
   "items": {"$ref": "#/components/schemas/SlotDecision"}}}},
"Explanation": {
 "type": "object",
 "required": ["id", "probability", "value", "estimate", "clusterSize", "parts"],
 "properties": {
  "id": {"type": "string"},
  "probability": {"type": "number"},
  "value": {"type": "number"},
  "estimate": {"type": "number"},
  "clusterSize": {
   "type": "integer",
   "description": "an estimate if clusterFound and clusterVisited are there"},
  "clusterFound": {"type": "integer"},
  "clusterVisited": {"type": "integer"},
  "parts": {
   "description": "shared, own and memory add up to the estimate; other parts are added to it",
   "type": "object",
   "additionalProperties": {"type": "number"}}}},
"Event": {
 "allOf": [
  {"$ref": "#/components/schemas/Decision"},
  {
   "type": "object",
   "properties": {
    "userId": {"type": "string"},
    "time": {"type": "integer"},
    "mode": {"type": "string"},
    "deferred": {"type": "boolean"},
    "waiting": {"type": "boolean"},
    "activated": {"type": "boolean"},
    "rewards": {"type": "array", "items": {"$ref": "#/components/schemas/EventReward"}},
    "preferredActionId": {"type": "string"},
    "propensity": {"type": "number"}}}]},
"Reward": {
 "type": "object",
 "example": {"value": 1, "rewardId": "order-77"},
 "required": ["value"],
 "properties": {
  "value": {"type": "number", "minimum": 0, "maximum": 1},
  "rewardId": {"type": "string", "maxLength": 256},
  "slot": {"type": "string", "description": "of an event with slots; without it, the first"}}},
"RewardOutcome": {
 "type": "object",
 "required": ["outcome"],
 "properties": {
  "outcome": {
   "type": "string",
   "enum": ["learned", "waiting", "duplicate", "ignored", "late"]}}},
"Log": {"type": "string", "description": "a decision in each line, as docs/EVALUATION.md says"},
"User": {
 "type": "object",
 "required": ["userId", "ownLearner", "shared", "learner", "decisions", "learned"],
 "properties": {
  "userId": {"type": "string"},
  "ownLearner": {"type": "boolean"},
  "shared": {"type": "boolean"},
  "learner": {"type": "integer"},
  "decisions": {"type": "integer"},
  "learned": {"type": "integer"}}},
"Settings": {
 "type": "object",
 "example": {"epsilon": 0.2},
 "properties": {
  "mode": {"type": "string", "enum": ["online", "apprentice", "logging"]},
  "epsilon": {"type": "number", "minimum": 0, "maximum": 1},
  "waitingSeconds": {"type": "number"},
  "defaultReward": {"type": "number", "minimum": 0, "maximum": 1},
  "aggregation": {"type": "string", "enum": ["earliest", "average", "sum", "min", "max"]},
  "estimates": {"type": "boolean"},
  "keepFeatures": {"type": "boolean"}}},
"ModelOptions": {
 "allOf": [
  {"$ref": "#/components/schemas/Settings"},
  {
   "type": "object",
   "properties": {
    "name": {"type": "string"},
    "policy": {"type": "string"},
    "options": {"type": "object", "additionalProperties": true},
    "dimension": {"type": "integer"},
    "seed": {"type": "integer"},
    "interactions": {"type": "boolean"},
    "groups": {"type": "integer"},
    "mostUsers": {"type": "integer"},
    "mostPending": {"type": "integer"},
    "remembered": {"type": "integer"},
    "userPath": {"type": "string"}}}]},
"NewModel": {
 "allOf": [
  {"$ref": "#/components/schemas/ModelOptions"},
  {
   "type": "object",
   "required": ["name"],
   "properties": {
    "from": {
     "type": "string",
     "description": "another model, or an upload, from which the model begins"}}}]},
"Bytes": {"type": "string", "format": "binary"},
"Upload": {
 "type": "object",
 "required": ["upload", "bytes"],
 "properties": {"upload": {"type": "string"}, "bytes": {"type": "integer"}}},
"NewChallenger": {
 "type": "object",
 "required": ["name", "policy"],
 "properties": {
  "name": {"type": "string", "maxLength": 64},
  "policy": {"type": "string"},
  "options": {"type": "object"},
  "weights": {"type": "string", "enum": ["none", "clipped"]},
  "mostWeight": {"type": "number", "minimum": 1}}},
"Promotion": {
 "type": "object",
 "required": ["challenger"],
 "properties": {
  "challenger": {"type": "string", "maxLength": 64},
  "keepAs": {"type": "string", "maxLength": 64}}},
"Estimate": {
 "description": "what a policy would have earned in each of these decisions; low, high: 95 %",
 "type": "object",
 "properties": {
  "decisions": {"type": "integer"},
  "value": {"type": "number", "nullable": true},
  "low": {"type": "number"},
  "high": {"type": "number"},
  "effectiveSampleSize": {"type": "number"},
  "meanWeight": {"type": "number"}}},
"Challenger": {
 "type": "object",
 "properties": {
  "name": {"type": "string"},
  "policy": {"type": "string"},
  "options": {"type": "object"},
  "weights": {"type": "string"},
  "mostWeight": {"type": "number"},
  "sincePosition": {"type": "integer"},
  "learned": {"type": "integer"},
  "refused": {"type": "integer"},
  "memoryBytes": {"type": "integer"},
  "lastRefusal": {"type": "string"},
  "estimate": {"$ref": "#/components/schemas/Estimate"},
  "champion": {"$ref": "#/components/schemas/Estimate"}}},
"Model": {
 "allOf": [
  {"$ref": "#/components/schemas/ModelOptions"},
  {
   "type": "object",
   "properties": {
    "modelVersion": {"type": "integer"},
    "rounds": {"type": "integer"},
    "users": {"type": "integer"},
    "learners": {"type": "integer"},
    "pending": {"type": "integer"},
    "memoryBytes": {"type": "integer"},
    "lastRefusal": {
     "description": "why the policy most recently refused a reward; empty if it never did",
     "type": "string"},
    "lastPosition": {"type": "integer"},
    "snapshotPosition": {"type": "integer"},
    "counts": {"type": "object", "additionalProperties": {"type": "number"}},
    "clusters": {"type": "object", "additionalProperties": {"type": "number"}},
    "earned": {
     "description": "of the decisions whose waiting time is over",
     "type": "object",
     "properties": {
      "decisions": {"type": "integer"},
      "unactivated": {"type": "integer"},
      "uncounted": {"type": "integer"},
      "rewardSum": {"type": "number"},
      "meanReward": {"type": "number", "nullable": true}}},
    "values": {
     "type": "object",
     "properties": {
      "champion": {"$ref": "#/components/schemas/Estimate"},
      "random": {"$ref": "#/components/schemas/Estimate"},
      "first": {"$ref": "#/components/schemas/Estimate"}}},
    "challengers": {"type": "array", "items": {"$ref": "#/components/schemas/Challenger"}}}}]},
"Models": {
 "type": "object",
 "required": ["models"],
 "properties": {
  "models": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
"Snapshot": {
 "type": "object",
 "required": ["model", "position"],
 "properties": {
  "model": {"type": "string"},
  "position": {"type": "integer"},
  "bytes": {"type": "integer"}}},
"NewBackup": {
 "type": "object",
 "example": {"name": "monday"},
 "required": ["name"],
 "properties": {"name": {"type": "string", "maxLength": 64}}},
"Backup": {"type": "object", "properties": {"backup": {"type": "string"}}},
"Nodes": {
 "type": "object",
 "properties": {
  "nodes": {"type": "array", "items": {
   "type": "object",
   "properties": {
    "name": {"type": "string"},
    "address": {"type": "string", "description": "where other nodes reach it"},
    "owner": {"type": "boolean", "description": "it computes all requests"},
    "silentSeconds": {"type": "number"}}}}}},
"Reloaded": {
 "type": "object",
 "properties": {"keys": {"type": "integer"}, "tls": {"type": "boolean"}}})json";

}  // namespace mcnb
