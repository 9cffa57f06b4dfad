#include "mcnb/serve/http/api.h"

namespace mcnb {
namespace {

// Kept by hand; a test compares its paths with the table of routes.
constexpr const char* kDocument = R"json({
 "openapi": "3.0.3",
 "info": {
  "title": "mcnb serve",
  "version": ")json" MCNB_VERSION R"json(",
  "description": "Decide now, learn later: contextual bandits with user clusters."},
 "security": [{"key": []}, {"bearer": []}, {"subscription": []}],
 "paths": {
  "/livez": {
   "get": {
    "summary": "Whether the process runs",
    "security": [],
    "responses": {"200": {"description": "alive"}}}},
  "/readyz": {
   "get": {
    "summary": "Whether decisions can be served",
    "security": [],
    "responses": {
     "200": {"description": "ready"},
     "503": {"$ref": "#/components/responses/Error"}}}},
  "/metrics": {
   "get": {
    "summary": "Figures for Prometheus",
    "responses": {
     "200": {"description": "text", "content": {"text/plain": {"schema": {"type": "string"}}}}}}},
  "/openapi.json": {
   "get": {
    "summary": "This document",
    "security": [],
    "responses": {"200": {"description": "OpenAPI 3"}}}},
  "/v1/models": {
   "get": {
    "summary": "All models",
    "responses": {
     "200": {
      "description": "models",
      "content": {
       "application/json": {
        "schema": {
         "type": "object",
         "properties": {
          "models": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}}}}}}},
   "post": {
    "summary": "Make a model",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewModel"}}}},
    "responses": {
     "201": {"$ref": "#/components/responses/Model"},
     "400": {"$ref": "#/components/responses/Error"},
     "409": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models/{model}": {
   "parameters": [{"$ref": "#/components/parameters/model"}],
   "get": {
    "summary": "One model",
    "responses": {
     "200": {"$ref": "#/components/responses/Model"},
     "404": {"$ref": "#/components/responses/Error"}}},
   "patch": {
    "summary": "Change settings",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Settings"}}}},
    "responses": {
     "200": {"$ref": "#/components/responses/Model"},
     "400": {"$ref": "#/components/responses/Error"},
     "404": {"$ref": "#/components/responses/Error"}}},
   "delete": {
    "summary": "Delete a model with its log",
    "responses": {
     "204": {"description": "deleted"},
     "404": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models/{model}/snapshot": {
   "parameters": [{"$ref": "#/components/parameters/model"}],
   "post": {
    "summary": "Write a snapshot now",
    "responses": {
     "200": {"description": "written"},
     "404": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models/{model}/rank": {
   "parameters": [{"$ref": "#/components/parameters/model"}],
   "post": {
    "summary": "Decide",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RankRequest"}}}},
    "responses": {
     "200": {
      "description": "the decision, on disk",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Decision"}}}},
     "400": {"$ref": "#/components/responses/Error"},
     "404": {"$ref": "#/components/responses/Error"},
     "409": {"$ref": "#/components/responses/Error"},
     "413": {"$ref": "#/components/responses/Error"},
     "503": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models/{model}/events/{id}": {
   "parameters": [
    {"$ref": "#/components/parameters/model"},
    {"$ref": "#/components/parameters/id"}],
   "get": {
    "summary": "A decision with its explanation",
    "responses": {
     "200": {
      "description": "the event",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Event"}}}},
     "404": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models/{model}/events/{id}/reward": {
   "parameters": [
    {"$ref": "#/components/parameters/model"},
    {"$ref": "#/components/parameters/id"}],
   "post": {
    "summary": "Reward an event",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Reward"}}}},
    "responses": {
     "200": {
      "description": "what became of it",
      "content": {
       "application/json": {
        "schema": {
         "type": "object",
         "properties": {
          "outcome": {
           "type": "string",
           "enum": ["learned", "waiting", "duplicate", "ignored", "late"]}}}}}},
     "400": {"$ref": "#/components/responses/Error"},
     "404": {"$ref": "#/components/responses/Error"},
     "503": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models/{model}/events/{id}/activate": {
   "parameters": [
    {"$ref": "#/components/parameters/model"},
    {"$ref": "#/components/parameters/id"}],
   "post": {
    "summary": "A deferred decision was really shown",
    "responses": {
     "204": {"description": "active"},
     "404": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models/{model}/users/{id}": {
   "parameters": [
    {"$ref": "#/components/parameters/model"},
    {"$ref": "#/components/parameters/id"}],
   "get": {
    "summary": "What is known of a user",
    "responses": {
     "200": {"description": "the user"},
     "404": {"$ref": "#/components/responses/Error"}}},
   "delete": {
    "summary": "Forget a user",
    "responses": {
     "204": {"description": "forgotten"},
     "404": {"$ref": "#/components/responses/Error"}}}},
  "/v1/backup": {
   "post": {
    "summary": "Copy everything while running",
    "requestBody": {
     "required": true,
     "content": {
      "application/json": {
       "schema": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}}}}}},
    "responses": {
     "201": {"description": "copied"},
     "409": {"$ref": "#/components/responses/Error"}}}},
  "/personalizer/v1.0/rank": {
   "post": {
    "summary": "Decide, as the retired service did",
    "requestBody": {
     "required": true,
     "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/PersonalizerRankRequest"}}}},
    "responses": {
     "201": {
      "description": "the decision",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Decision"}}}},
     "400": {"$ref": "#/components/responses/Error"}}}},
  "/personalizer/v1.0/events/{id}/reward": {
   "parameters": [{"$ref": "#/components/parameters/id"}],
   "post": {
    "summary": "Reward, as the retired service did",
    "requestBody": {
     "required": true,
     "content": {
      "application/json": {
       "schema": {
        "type": "object",
        "required": ["value"],
        "properties": {"value": {"type": "number", "minimum": 0, "maximum": 1}}}}}},
    "responses": {
     "204": {"description": "taken"},
     "404": {"$ref": "#/components/responses/Error"}}}},
  "/personalizer/v1.0/events/{id}/activate": {
   "parameters": [{"$ref": "#/components/parameters/id"}],
   "post": {
    "summary": "Activate, as the retired service did",
    "responses": {
     "204": {"description": "active"},
     "404": {"$ref": "#/components/responses/Error"}}}}},
 "components": {
  "securitySchemes": {
   "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
   "bearer": {"type": "http", "scheme": "bearer"},
   "subscription": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"}},
  "parameters": {
   "model": {"name": "model", "in": "path", "required": true, "schema": {"type": "string"}},
   "id": {
    "name": "id",
    "in": "path",
    "required": true,
    "schema": {"type": "string", "maxLength": 256}}},
  "responses": {
   "Error": {
    "description": "why not",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
   "Model": {
    "description": "a model",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Model"}}}}},
  "schemas": {
   "Error": {
    "type": "object",
    "properties": {
     "error": {
      "type": "object",
      "properties": {
       "code": {"type": "string"},
       "message": {"type": "string"},
       "field": {"type": "string", "nullable": true}}}}},
   "Features": {
    "description": "d numbers, or an object (or objects) that is hashed",
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
     "metaBonus": {"type": "number"},
     "userBonus": {"type": "number"},
     "clusterSize": {"type": "integer"}}},
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
     "rewardId": {"type": "string"}}},
   "Settings": {
    "type": "object",
    "properties": {
     "mode": {"type": "string", "enum": ["online", "apprentice", "logging"]},
     "epsilon": {"type": "number", "minimum": 0, "maximum": 1},
     "waitingSeconds": {"type": "number"},
     "defaultReward": {"type": "number", "minimum": 0, "maximum": 1},
     "aggregation": {"type": "string", "enum": ["earliest", "average", "sum", "min", "max"]}}},
   "NewModel": {
    "allOf": [
     {"$ref": "#/components/schemas/Settings"},
     {
      "type": "object",
      "required": ["name"],
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
   "Model": {
    "type": "object",
    "properties": {
     "name": {"type": "string"},
     "policy": {"type": "string"},
     "modelVersion": {"type": "integer"},
     "rounds": {"type": "integer"},
     "users": {"type": "integer"},
     "learners": {"type": "integer"},
     "pending": {"type": "integer"},
     "memoryBytes": {"type": "integer"},
     "counts": {"type": "object"},
     "clusters": {"type": "object"}}}}}})json";

}  // namespace

std::string openapi_document() { return kDocument; }

}  // namespace mcnb
