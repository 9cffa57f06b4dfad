// Microsoft's client package for the retired service, unchanged but for the address. Run by
// test_clients.py.

const assert = require("node:assert/strict");
const { ApiKeyCredentials } = require("@azure/ms-rest-js");
const { PersonalizerClient } = require("@azure/cognitiveservices-personalizer");

async function check(url) {
  const credentials = new ApiKeyCredentials({ inHeader: { "Ocp-Apim-Subscription-Key": "anything" } });
  const client = new PersonalizerClient(credentials, url);
  const answer = await client.rank({
    eventId: "lunch-1",
    contextFeatures: [{ user: { id: "ann" } }, { daytime: "morning" }],
    actions: [{ id: "pasta", features: [{ taste: "salty" }] }, { id: "cake", features: [{ taste: "sweet" }] },
              { id: "soup", features: [{ taste: "salty" }, { hot: true }] }],
    excludedActions: ["soup"],
    deferActivation: true,
  });
  assert.equal(answer.eventId, "lunch-1");
  assert.ok(["pasta", "cake"].includes(answer.rewardActionId));
  assert.equal(answer.ranking.length, 3);
  assert.ok(Math.abs(answer.ranking.reduce((sum, one) => sum + one.probability, 0) - 1) < 1e-6);
  assert.equal(answer.ranking.find((one) => one.id === "soup").probability, 0);
  assert.equal((await client.events.activate("lunch-1"))._response.status, 204);
  assert.equal((await client.events.reward("lunch-1", { value: 1.0 }))._response.status, 204);

  const second = await client.rank({ actions: [{ id: "pasta", features: [] }, { id: "cake", features: [{ a: 1 }] }] });
  await client.events.reward(second.eventId, { value: 0.25 });
  await assert.rejects(client.rank({ eventId: "none", actions: [] }), (error) => error.statusCode === 400);
  await assert.rejects(client.events.activate("unknown"), (error) => error.statusCode === 404);
}

check(process.argv[2]).then(() => console.log("all is well"), (error) => {
  console.error(error);
  process.exit(1);
});
