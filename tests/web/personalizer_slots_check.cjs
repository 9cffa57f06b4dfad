// Microsoft's client package for several slots, unchanged but for the address, which has no TLS here.
// Run by test_clients.py.

const assert = require("node:assert/strict");
const { default: createPersonalizerClient, isUnexpected } = require("@azure-rest/ai-personalizer");

async function check(url) {
  const client = createPersonalizerClient(url, { key: "anything" }, { allowInsecureConnection: true });
  const post = async (status, path, ids, body) => {
    const response = await client.path(path, ...ids).post(body === undefined ? {} : { body });
    assert.equal(response.status, status, JSON.stringify(response.body));
    return response;
  };
  const actions = [{ id: "pasta", features: [{ taste: "salty" }] }, { id: "cake", features: [{ taste: "sweet" }] },
                   { id: "soup", features: [{ taste: "salty" }, { hot: true }] }];
  const answer = await post("201", "/multislot/rank", [], {
    eventId: "menu-1",
    contextFeatures: [{ user: { id: "ann" } }, { daytime: "morning" }],
    actions,
    slots: [{ id: "main", features: [{ size: "large" }], excludedActions: ["cake"], baselineAction: "pasta" },
            { id: "last", baselineAction: "cake" }],
    deferActivation: true,
  });
  assert.ok(!isUnexpected(answer));
  assert.deepEqual(Object.keys(answer.body).sort(), ["eventId", "slots"]);
  assert.equal(answer.body.eventId, "menu-1");
  assert.deepEqual(answer.body.slots.map((slot) => slot.id), ["main", "last"]);
  const [main, last] = answer.body.slots.map((slot) => slot.rewardActionId);
  assert.ok(["pasta", "soup"].includes(main));
  assert.ok(actions.some((action) => action.id === last) && last !== main);
  await post("204", "/multislot/events/{eventId}/activate", ["menu-1"]);
  await post("204", "/multislot/events/{eventId}/reward", ["menu-1"],
             { reward: [{ slotId: "main", value: 1.0 }, { slotId: "last", value: 0.5 }] });
  const unknown = await post("404", "/multislot/events/{eventId}/reward", ["menu-1"], { reward: [{ slotId: "attic", value: 1 }] });
  assert.ok(isUnexpected(unknown));
  assert.equal(unknown.body.error.code, "unknown_slot");
  await post("400", "/multislot/rank", [], { actions, slots: [] });

  // The preview's paths for one action.
  const one = await post("201", "/rank", [], { actions });
  await post("204", "/events/{eventId}/reward", [one.body.eventId], { value: 0.25 });
}

check(process.argv[2]).then(() => console.log("all is well"), (error) => {
  console.error(error);
  process.exit(1);
});
