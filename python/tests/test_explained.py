"""What `scores` explains, and states that earlier versions saved."""

import base64
import pickle
import zlib

import numpy as np
import pytest

import mcnb
from conftest import unit_rows

# A bandit of two features with width=2 and meta_steps=1 that had learned three rewards. Version 1
# of the file; M-CNB had no option `normalise` then and took arms as they are.
STATE_OF_VERSION_1 = (
    b"eNrzdfZzKi5JNPzEyAAGu2/0zHd4cs6ZF8JlKKgsycjP001KzEvJLAGpYYFK5CbnJTFB2VwwsdSSxPjiktSCYqhp"
    b"DIasUEZ5ZkpJBkzUCKYRJsCAgw8DzDjE2aB0YlmFqSHYVBiGS3kqaNiD8ITVa+1AOOSEnz0Q72fEYm31FQ37m2Xc"
    b"9vfmT9pnuMbEXvixsv1znqz9MLM0j9vbP34tADdLXTrJ3o/JBm4WM5JZjIxY3M+K5n4mLP6DitkzoqlhxCLPhtDm"
    b"wIDKdkATQzGDGU2MCYm/4O+fi2++53wGAFj2Pz0=")


@pytest.mark.parametrize("policy", ["mcnb", "mcnb:preset=default-classification", "neuralts",
                                    "neuucb-one:training=online", "epsilon-greedy:epsilon=0.5",
                                    "random", "linucb"])
def test_scores_after_choose_explain_the_decision(policy):
    random = np.random.default_rng(3)
    bandit = mcnb.Bandit(policy, features=5, users=4, seed=2)
    for step in range(400):
        user, arms = step % 4, random.normal(size=(6, 5))
        chosen = bandit.choose(user, arms)
        assert np.argmax(bandit.scores(user, arms)["value"]) == chosen, f"decision {step}"
        if step % 3 > 0:
            bandit.learn(user, arms[chosen], float(arms[chosen, 0] > 0))


def test_scores_of_a_batch_explain_its_decisions():
    bandit = mcnb.Bandit("random", features=5, users=4)
    users, arms = np.array([0, 1, 1, 3]), unit_rows(1, 4, 20, 5)
    arms[2] = arms[1]  # two equal rounds have draws of their own
    chosen = bandit.choose(users, arms)
    values = bandit.scores(users, arms)["value"]
    assert np.argmax(values, axis=1).tolist() == chosen.tolist()
    assert np.array_equal(bandit.scores(3, arms[3])["value"], values[3])
    assert not np.array_equal(values[1], values[2])


def test_scores_keep_the_draws_of_a_decision_until_the_next_one():
    bandit = mcnb.Bandit("random", features=5, users=4)
    arms, others = unit_rows(1, 6, 5), unit_rows(2, 6, 5)
    chosen = bandit.choose(1, arms, items=np.arange(6))
    draws = bandit.scores(1, arms, items=np.arange(6))
    assert np.argmax(draws["value"]) == chosen
    bandit.learn(1, arms[chosen], 1)
    bandit.predict(1, arms)
    for one in (bandit, bandit.copy(), pickle.loads(pickle.dumps(bandit))):
        assert np.array_equal(one.scores(1, arms, items=np.arange(6)), draws)
        of_next = one.scores(1, arms, round=one.last_round + 1)
        for user, some in ((1, others), (2, arms), (1, arms)):  # the last has no items
            assert not np.array_equal(one.scores(user, some), draws)
        assert np.array_equal(one.scores(2, arms), of_next)
    bandit.choose(1, others)
    assert not np.array_equal(bandit.scores(1, arms, items=np.arange(6)), draws)
    bandit.reset()
    assert np.array_equal(bandit.scores(1, others), bandit.scores(1, others, round=0))


def test_a_state_of_an_earlier_version_loads_and_goes_on_as_it_was(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(zlib.decompress(base64.b64decode(STATE_OF_VERSION_1)))
    old = mcnb.Bandit.load(path)
    expected = mcnb.Bandit(
        "mcnb", features=2, width=2, meta_steps=1, normalise="none", scan="all", scan_limit=0
    )
    arms = np.array([[2, 0], [0, 2], [2, 2]], np.float32)
    expected.learn(0, arms, [0.5, 0, 0.5])
    assert old.options == expected.options
    assert old.options["normalise"] == "none"
    for one in (old, old.copy(), expected):
        assert one.choose(0, arms) == expected.copy().choose(0, arms, round=3)
    old.learn(0, arms[1], 1)
    expected.learn(0, arms[1], 1)
    probe = unit_rows(1, 4, 2) * 3
    assert np.allclose(old.scores(0, probe)["value"], expected.scores(0, probe)["value"], rtol=1e-4)
    old.save(path)
    assert mcnb.Bandit.load(path).options["normalise"] == "none"


def test_a_state_of_today_says_how_long_arms_are(tmp_path):
    arms = unit_rows(1, 4, 6) * 7
    bandit = mcnb.Bandit("mcnb", features=6)
    bandit.learn(0, arms[0], 1)
    bandit.save(tmp_path / "state")
    loaded = mcnb.Bandit.load(tmp_path / "state")
    assert loaded.options["normalise"] == "unit"
    assert np.array_equal(loaded.scores(0, arms), bandit.scores(0, arms))
    assert np.allclose(loaded.scores(0, arms)["value"], loaded.scores(0, arms / 7)["value"])
