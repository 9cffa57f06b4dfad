"""Slots, and models that begin with what was learned elsewhere, with mcnb.Client."""

import numpy as np
import pytest

import mcnb


def test_slots_get_an_action_each_and_a_reward_each(serving):
    client = mcnb.Client(serving().url)
    actions = {name: {"name": name} for name in ("tea", "bread", "butter")}
    page = client.rank_slots("ann", actions, [{"id": "top", "features": {"size": np.float32(2)}},
                                              {"id": "side", "excludedActions": ["tea"]}],
                             event_id="page", defer=True, explain=True)
    assert [slot.slot for slot in page.slots] == ["top", "side"]
    assert page.slots[0].action != page.slots[1].action != "tea"
    assert len(page.slots[0].explain) == 3
    assert client.reward(page, 1, slot="side") == "waiting"
    client.activate(page)
    assert client.reward(page, 0.5, slot="top") == "learned"
    assert client.reward(page, 0.5, slot="side") == "ignored"
    assert [slot["id"] for slot in client.event(page)["slots"]] == ["top", "side"]
    with pytest.raises(mcnb.ServiceError, match="404 unknown_slot"):
        client.reward(page, 1, slot="foot")
    assert len(client.rank_slots("ann", actions, 3).slots) == 3


def test_models_begin_with_what_others_and_logs_have_learned(serving, tmp_path):
    client = mcnb.Client(serving().url)
    shop = client.create_model("shop", policy="linucb", dimension=4)
    actions = {"tea": [1, 0, 0, 0], "juice": [0, 1, 0, 0]}
    for i in range(20):
        shop.reward(shop.rank("ann", actions), 1.0)
    trial = client.create_model("trial", start="shop", epsilon=0)
    assert trial.model_info()["counts"]["learned"] == 20
    assert (trial.rank("ann", actions, explain=True).explain[0]["estimate"] ==
            pytest.approx(shop.rank("ann", actions, explain=True).explain[0]["estimate"]))
    with pytest.raises(mcnb.ServiceError, match="400 bad_option.*dimension"):
        client.create_model("other", start="shop", dimension=5)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(
        '{"event": "%d", "user": "ann", "actions": [{"id": "a", "features": {"name": "a"}}, '
        '{"id": "b", "features": {"name": "b"}}], "chosen": %d, "probability": 0.5, '
        '"reward": %d}\n' % (i, i % 2, i % 2) for i in range(200)))
    upload = client.upload(log)
    warm = client.create_model("warm", start=upload, policy="linucb", epsilon=0)
    for user in ("ann", "bob"):
        assert warm.rank(user, {"a": {"name": "a"}, "b": {"name": "b"}}).action == "b"
    client.remove_upload(upload)
    with pytest.raises(mcnb.ServiceError, match="404 unknown_upload"):
        client.create_model("late", start=upload)
