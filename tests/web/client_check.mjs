// What the client does when the network fails: run by test_clients.py with the address of a service
// that has keys.

import assert from "node:assert/strict";
import http from "node:http";
import { Client, ConnectionError, ServiceError } from "mcnb-client";

const service = new URL(process.argv[2]);

// Passes requests on to the service; `plan` says for each in turn what becomes of its response.
let plan = [];
const seen = [];
const proxy = http.createServer((request, response) => {
  const body = [];
  request.on("data", (bytes) => body.push(bytes));
  request.on("end", () => {
    const what = plan.shift() ?? "pass";
    seen.push({ path: request.url, body: Buffer.concat(body).toString() });
    if (what === "busy") {
      response.writeHead(503, { "Retry-After": "0" }).end('{"error": {"code": "overloaded", "message": "busy", "field": null}}');
      return;
    }
    const onward = http.request({ host: service.hostname, port: service.port, path: request.url, method: request.method,
                                  headers: { ...request.headers, host: service.host } }, (answer) => {
      if (what === "lose") {
        answer.resume().on("end", () => request.socket.destroy());
      } else if (what === "hang") {
        answer.resume();
      } else {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      }
    });
    onward.end(Buffer.concat(body));
  });
});
await new Promise((done) => proxy.listen(0, "localhost", done));
const url = `http://localhost:${proxy.address().port}`;
const client = new Client(url, { key: "decide-secret", backoff: 1, timeout: 2000 });
const actions = { tea: { kind: "drink" }, bread: { kind: "food" } };
const tries = async (first, work) => {
  plan = first;
  seen.length = 0;
  const result = await work();
  return { result, sent: seen.map((one) => JSON.parse(one.body || "null")), paths: seen.map((one) => one.path) };
};

// A lost response: the same event again, which the service recognises.
const lost = await tries(["lose", "busy"], () => client.rank("ann", actions, { context: { daytime: "morning" } }));
assert.equal(lost.sent.length, 3);
assert.equal(new Set(lost.sent.map((one) => one.eventId)).size, 1);
assert.equal(lost.result.eventId, lost.sent[0].eventId);
assert.ok(lost.result.probability > 0 && ["tea", "bread"].includes(lost.result.action));

// The same for a reward, which counts once, and for an id that needs escaping.
const rewarded = await tries(["lose"], () => client.reward(lost.result, 1));
assert.equal(rewarded.sent.length, 2);
assert.deepEqual(rewarded.sent[0], rewarded.sent[1]);
assert.equal(rewarded.result, "duplicate");
const strange = await client.rank("a/b", actions, { eventId: "x/y?&ö", defer: true });
await client.activate(strange);
assert.equal(await client.reward("x/y?&ö", 0.5), "learned");

// Slots have an action and a reward each.
const page = await client.rankSlots("ann", { ...actions, butter: {} },
                                    [{ id: "top", excludedActions: ["tea"] }, { id: "side", features: { size: "small" } }]);
assert.deepEqual(page.slots.map((slot) => slot.slot), ["top", "side"]);
assert.ok(page.slots[0].action !== "tea" && page.slots[0].action !== page.slots[1].action);
assert.ok(page.slots.every((slot) => slot.probability > 0 && slot.probability <= 1));
assert.equal(await client.rewardSlot(page, "side", 1), "learned");
await assert.rejects(client.rewardSlot(page, "attic", 1), (error) => error.code === "unknown_slot");
assert.equal((await client.rankSlots("ann", actions, 2)).slots.length, 2);

// A response that does not come in time.
const slow = new Client(url, { key: "decide-secret", timeout: 150, backoff: 1, retries: 1 });
const hung = await tries(["hang"], () => slow.rank("ann", actions));
assert.equal(hung.sent.length, 2);
await assert.rejects(tries(["hang", "hang"], () => slow.rank("ann", actions, { eventId: "twice" })), ConnectionError);
assert.equal(seen.length, 2);

// What the service refuses is not tried again.
await assert.rejects(tries([], () => client.rank("", actions)), (error) =>
  error instanceof ServiceError && error.status === 400 && error.code === "bad_field" && error.field === "userId");
assert.equal(seen.length, 1);
await assert.rejects(client.forget("ann"), (error) => error.status === 403 && error.code === "not_allowed");
await assert.rejects(new Client(url, { key: "wrong" }).info(), (error) => error.status === 401 && error.code === "unknown_key");

// A caller who no longer waits, a service that is not there, a wrong address.
const stop = new AbortController();
plan = ["hang"];
setTimeout(() => stop.abort(new Error("no longer")), 20);
await assert.rejects(client.call("GET", "/readyz", { signal: stop.signal }), /no longer/);
const nobody = new Client("http://localhost:9", { retries: 1, backoff: 1 });
await assert.rejects(nobody.user("ann"), ConnectionError);
assert.equal(await nobody.ready(), false);
assert.equal(await client.ready(), true);
assert.throws(() => new Client("localhost:8080"), /expected "http/);
const reader = new Client(url, { key: "read-secret" });
assert.equal((await reader.event(strange)).userId, "a/b");
assert.equal((await reader.user("a/b")).decisions, 1);
await assert.rejects(reader.of("other").info(), (error) => error.code === "unknown_model");

proxy.close();
proxy.closeAllConnections();
console.log("all is well");
