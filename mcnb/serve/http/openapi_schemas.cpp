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
  "explain": {"type": "boolean"}}},
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
  "explain": {"type": "array", "items": {"$ref": "#/components/schemas/Explanation"}}}},
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
  "rewardId": {"type": "string", "maxLength": 256}}},
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
"Log": {"type": "string", "description": "one decision a line, as docs/EVALUATION.md describes"},
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
  {"type": "object", "required": ["name"]}]},
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
    "clusters": {"type": "object"}}}]},
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
