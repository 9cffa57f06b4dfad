#include "mcnb/serve/http/openapi.h"

namespace mcnb {

// The schemas of the retired Personalizer service, in the same form as in openapi_schemas.cpp.
const char* const kPersonalizerSchemas = R"json(
"PersonalizerActions": {
 "type": "array",
 "minItems": 1,
 "maxItems": 1000,
 "items": {
  "type": "object",
  "required": ["id"],
  "properties": {
   "id": {"type": "string"},
   "features": {"type": "array", "items": {"type": "object", "additionalProperties": true}}}}},
"PersonalizerRankRequest": {
 "type": "object",
 "example": {
  "contextFeatures": [{"daytime": "morning"}],
  "actions": [{"id": "pasta", "features": [{"taste": "salty"}]}, {"id": "cake"}]},
 "required": ["actions"],
 "properties": {
  "eventId": {"type": "string", "maxLength": 256, "nullable": true},
  "actions": {"$ref": "#/components/schemas/PersonalizerActions"},
  "contextFeatures": {
   "type": "array",
   "nullable": true,
   "items": {"type": "object", "additionalProperties": true}},
  "excludedActions": {
   "type": "array",
   "maxItems": 1000,
   "nullable": true,
   "items": {"type": "string"}},
  "deferActivation": {"type": "boolean", "nullable": true}}},
"PersonalizerReward": {
 "type": "object",
 "required": ["value"],
 "properties": {"value": {"type": "number", "minimum": 0, "maximum": 1}}},
"PersonalizerSlotsRequest": {
 "type": "object",
 "required": ["actions", "slots"],
 "properties": {
  "eventId": {"type": "string", "maxLength": 256, "nullable": true},
  "actions": {"$ref": "#/components/schemas/PersonalizerActions"},
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
     "value": {"type": "number", "minimum": 0, "maximum": 1}}}}}})json";

}  // namespace mcnb
