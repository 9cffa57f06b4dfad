#include "mcnb/serve/http/openapi.h"

namespace mcnb {

// The schemas of the bodies that request_json.cpp reads and response_json.cpp writes. A test
// compares them with the responses of the real service.
const char* const kOpenApiSchemas = R"json(
"Error": {
 "type": "object",
 "properties": {
  "error": {
   "type": "object",
   "properties": {
    "code": {"$ref": "#/components/schemas/ErrorCode"},
    "message": {"type": "string"},
    "field": {"type": "string", "nullable": true}}}}},
"Status": {
 "type": "object",
 "properties": {
  "status": {"type": "string", "enum": ["alive", "ready"]},
  "damage": {"type": "array", "items": {
   "type": "object",
   "properties": {
    "model": {"type": "integer"},
    "first": {"type": "integer"},
    "last": {"type": "integer"},
    "what": {"type": "string"}}}}}},
"OpenApi": {"type": "object"},
"Metrics": {"type": "string", "description": "the text format of Prometheus"},
"Features": {
 "description": "as many numbers as the model's dimension, or objects that are hashed",
 "oneOf": [
  {"type": "array", "items": {"type": "number"}},
  {"type": "object"},
  {"type": "array", "items": {"type": "object"}}]},
"RankRequest": {
 "type": "object",
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
    {"type": "array", "minItems": 1, "maxItems": 100, "items": {"$ref": "#/components/schemas/Slot"}}]}}},
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
  "explain": {"type": "array", "items": {"$ref": "#/components/schemas/Explanation"}}}},
"PersonalizerSlotsRequest": {
 "type": "object",
 "required": ["actions", "slots"],
 "properties": {
  "eventId": {"type": "string", "maxLength": 256, "nullable": true},
  "actions": {
   "type": "array",
   "minItems": 1,
   "maxItems": 1000,
   "items": {
    "type": "object",
    "required": ["id"],
    "properties": {
     "id": {"type": "string"},
     "features": {"type": "array", "items": {"type": "object"}}}}},
  "contextFeatures": {"type": "array", "nullable": true, "items": {"type": "object"}},
  "slots": {
   "type": "array",
   "minItems": 1,
   "maxItems": 100,
   "items": {
    "type": "object",
    "required": ["id"],
    "properties": {
     "id": {"type": "string", "maxLength": 255},
     "features": {"type": "array", "nullable": true, "items": {"type": "object"}},
     "excludedActions": {"type": "array", "nullable": true, "items": {"type": "string"}},
     "baselineAction": {"type": "string", "nullable": true}}}},
  "deferActivation": {"type": "boolean", "nullable": true}}},
"PersonalizerSlots": {
 "type": "object",
 "properties": {
  "eventId": {"type": "string"},
  "slots": {
   "type": "array",
   "items": {
    "type": "object",
    "properties": {"id": {"type": "string"}, "rewardActionId": {"type": "string"}}}}}},
"PersonalizerSlotRewards": {
 "type": "object",
 "required": ["reward"],
 "properties": {
  "reward": {
   "type": "array",
   "minItems": 1,
   "maxItems": 100,
   "items": {
    "type": "object",
    "required": ["slotId", "value"],
    "properties": {
     "slotId": {"type": "string"},
     "value": {"type": "number", "minimum": 0, "maximum": 1}}}}}},
"PersonalizerRankRequest": {
 "type": "object",
 "required": ["actions"],
 "properties": {
  "eventId": {"type": "string", "maxLength": 256, "nullable": true},
  "actions": {
   "type": "array",
   "minItems": 1,
   "maxItems": 1000,
   "items": {
    "type": "object",
    "required": ["id"],
    "properties": {
     "id": {"type": "string"},
     "features": {"type": "array", "items": {"type": "object"}}}}},
  "contextFeatures": {"type": "array", "nullable": true, "items": {"type": "object"}},
  "excludedActions": {
   "type": "array",
   "maxItems": 1000,
   "nullable": true,
   "items": {"type": "string"}},
  "deferActivation": {"type": "boolean", "nullable": true}}},
"Decision": {
 "type": "object",
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
   "description": "if the request has slots, instead of one answer",
   "type": "array",
   "items": {"$ref": "#/components/schemas/SlotDecision"}}}},
"Explanation": {
 "type": "object",
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
    "preferredActionId": {"type": "string"},
    "propensity": {"type": "number"}}}]},
"Reward": {
 "type": "object",
 "required": ["value"],
 "properties": {
  "value": {"type": "number", "minimum": 0, "maximum": 1},
  "rewardId": {"type": "string", "maxLength": 256},
  "slot": {"type": "string", "description": "of an event with slots; without it, the first"}}},
"PersonalizerReward": {
 "type": "object",
 "required": ["value"],
 "properties": {"value": {"type": "number", "minimum": 0, "maximum": 1}}},
"RewardOutcome": {
 "type": "object",
 "properties": {
  "outcome": {
   "type": "string",
   "enum": ["learned", "waiting", "duplicate", "ignored", "late"]}}},
"User": {
 "type": "object",
 "properties": {
  "userId": {"type": "string"},
  "ownLearner": {"type": "boolean"},
  "shared": {"type": "boolean"},
  "learner": {"type": "integer"},
  "decisions": {"type": "integer"},
  "learned": {"type": "integer"}}},
"Settings": {
 "type": "object",
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
    "options": {"type": "object"},
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
    "counts": {"type": "object"},
    "clusters": {"type": "object"},
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
 "properties": {
  "models": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
"Snapshot": {
 "type": "object",
 "properties": {
  "model": {"type": "string"},
  "position": {"type": "integer"},
  "bytes": {"type": "integer"}}},
"NewBackup": {
 "type": "object",
 "required": ["name"],
 "properties": {"name": {"type": "string", "maxLength": 64}}},
"Backup": {"type": "object", "properties": {"backup": {"type": "string"}}},
"Reloaded": {
 "type": "object",
 "properties": {"keys": {"type": "integer"}, "tls": {"type": "boolean"}}})json";

}  // namespace mcnb
