"""Logs in Python, what bandits learn from them, and decisions with exact probabilities."""

import json
import math
import subprocess

import numpy as np
import pytest

import mcnb
from mcnb.logs import LoggedAction, LoggedRound

ROUND = {"event": "e1", "user": "ann", "time": "2026-01-31T10:00:00.000000Z",
         "context": {"device": "phone"},
         "actions": [{"id": "tea", "features": {"hot": True}, "probability": 0.75},
                     {"id": "juice", "probability": 0.25}],
         "chosen": 0, "probability": 0.75, "reward": 1}


def coin_log(count, seed=1):
    """Users who like the action of their own name; the log prefers a."""
    chance = np.random.default_rng(seed)
    for number in range(count):
        user = "ab"[chance.integers(2)]
        chosen = int(chance.random() < 0.3)
        liked = "ab"[chosen] == user
        yield {"event": str(number), "user": user,
               "actions": [{"id": "a", "probability": 0.7}, {"id": "b", "probability": 0.3}],
               "chosen": chosen, "reward": float(chance.random() < (0.8 if liked else 0.2))}


def test_a_log_is_read_round_by_round_and_written_again(tmp_path):
    log = mcnb.logs.from_rounds([ROUND, {**ROUND, "event": "e2", "excluded": True}])
    first, second = log
    assert first == LoggedRound(
        actions=[LoggedAction("tea", {"hot": True}), LoggedAction("juice")], chosen=0,
        probability=0.75, reward=1.0, context={"device": "phone"}, event="e1", user="ann",
        time="2026-01-31T10:00:00.000000Z", probabilities=[0.75, 0.25])
    assert first.action == "tea" and second.excluded and list(log) == [first, second]
    assert list(mcnb.logs.from_rounds([first, second])) == [first, second]
    for form in ("jsonl", "csv"):
        log.write(tmp_path / "log", form)
        assert list(mcnb.logs.open(tmp_path / "log")) == [first, second]
    assert list(mcnb.logs.open(tmp_path / "log", start="2026-02-01")) == []
    frame = log.to_frame()
    assert list(frame["action"]) == ["tea", "tea"] and list(frame["excluded"]) == [False, True]


def test_iterating_may_end_early():
    log = mcnb.logs.from_rounds(coin_log(5000))
    assert [next(iter(log)).event for _ in range(3)] == ["0", "0", "0"]
    assert sum(1 for _ in log) == 5000


def test_a_frame_becomes_the_log_of_its_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"who": ["ann", "bob"], "what": ["tea", "juice"], "p": [0.8, 0.2],
                              "earned": [1.0, math.nan], "visits": [3, 1],
                              "device": ["phone", "desktop"]})
    log = mcnb.logs.from_frame(frame, action="what", probability="p", reward="earned", user="who")
    one, two = log
    assert (one.user, one.action, one.probability, one.reward) == ("ann", "tea", 0.8, 1.0)
    assert one.context == {"visits": 3, "device": "phone"} and two.reward is None
    assert [action.id for action in one.actions] == ["juice", "tea"]
    frame["offered"] = [["tea", "milk"], ["juice"]]
    log = mcnb.logs.from_frame(frame, action="what", probability="p", reward="earned",
                               actions="offered", features=["visits"])
    assert [[a.id for a in one.actions] for one in log] == [["tea", "milk"], ["juice"]]
    assert next(iter(log)).context == {"visits": 3}
    with pytest.raises(ValueError, match="probability: expected a column of the frame, got 'x'"):
        mcnb.logs.from_frame(frame, action="what", probability="x", reward="earned")


def test_bad_logs_are_refused_by_file_line_and_field(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action,probability,reward\na,0.5,1\nb,2,0\na,0.5,0\n")
    with pytest.raises(ValueError, match=r"log.csv:3: probability: expected a number above 0"):
        list(mcnb.logs.open(path))
    assert len(list(mcnb.logs.open(path, skip_bad=1))) == 2
    with pytest.raises(FileNotFoundError):
        mcnb.logs.open(tmp_path / "none")
    with pytest.raises(ValueError, match="rounds:1: .*unknown member"):
        list(mcnb.logs.from_rounds([{**ROUND, "chozen": 1}]))
    with pytest.raises(ValueError, match="start: expected a time"):
        mcnb.logs.open(path, start="yesterday")


def test_fit_learns_a_log_and_finds_its_users_by_name(tmp_path):
    log = mcnb.logs.from_rounds(coin_log(800))
    bandit = mcnb.Bandit("linucb", features=8, options={"users": "each"}).fit(log, passes=2)
    assert sorted(bandit.user_names) == ["a", "b"] and bandit.users == 2
    rounds = [one for one in log]
    for user, best in (("a", 0), ("b", 1)):
        arms = mcnb._core.hash_features(['{"x":1}'], "", 8)
        assert arms.shape == (1, 8)
        value = mcnb.evaluate(log, {"own": bandit}, estimators=["snips"], dimension=8)
        assert value.estimate("own", "SNIPS")["value"] > 0.7
        assert len(rounds) == 800 and best in (0, 1) and user in bandit.user_names
    twin = mcnb.Bandit("linucb", features=8, options={"users": "each"})
    assert twin.partial_fit(log).partial_fit(log).to_bytes() == bandit.to_bytes()
    bandit.save(tmp_path / "state")
    assert mcnb.Bandit.load(tmp_path / "state").user_names == bandit.user_names
    weighted = mcnb.Bandit("linucb", features=8).fit(log, weighted=True)
    assert weighted.to_bytes() != mcnb.Bandit("linucb", features=8).fit(log).to_bytes()
    with pytest.raises(ValueError, match="refused|expected 3 features|log: expected"):
        mcnb.Bandit("linucb", features=3).fit(mcnb.logs.from_rounds(
            [{**ROUND, "actions": [{"id": "x", "features": [1, 2]}]}]))


def test_the_program_trains_what_python_loads(program, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(one) + "\n" for one in coin_log(300)))
    state = tmp_path / "state"
    subprocess.run([program, "train", str(log), "--policy", "linucb:users=each", "--dimension", "8",
                    "--seed", "3", "--output", str(state)], check=True, capture_output=True)
    loaded = mcnb.Bandit.load(state)
    own = mcnb.Bandit("linucb", features=8, seed=3, options={"users": "each"}).fit(log)
    arms = np.random.default_rng(0).random((5, 8)).astype(np.float32)
    for user in ("a", "b", "stranger"):
        assert np.array_equal(loaded.scores(user, arms), own.scores(user, arms))
    assert loaded.features == 8 and loaded.seed == 3 and loaded.last_round == own.last_round
    with pytest.raises(ValueError, match="not a saved mcnb state"):
        mcnb.Bandit.load(log)


def test_users_and_features_may_have_names(tmp_path):
    bandit = mcnb.Bandit("linucb", features=16, alpha=0.1, options={"users": "each"})
    arms = {"tea": {"hot": True}, "juice": {"sweet": 0.8}, "water": None}
    for number in range(60):
        user, likes = ("ann", "tea") if number % 2 else ("bob", "juice")
        chosen = bandit.choose(user, arms, context={"hour": "noon"})
        assert chosen in arms
        bandit.learn(user, arms[chosen] or {}, float(chosen == likes), context={"hour": "noon"})
    assert bandit.predict("ann", arms, context={"hour": "noon"}) == "tea"
    assert bandit.predict("bob", list(arms.values()), context={"hour": "noon"}) == 1
    assert bandit.user_names == ["bob", "ann"]
    assert bandit.copy().user_names == bandit.user_names
    assert len(bandit.scores("ann", arms)) == 3 and bandit.predict_expectations(0, arms).size == 3
    bandit.reset()
    assert bandit.user_names == ["bob", "ann"] and bandit.users == 2
    with pytest.raises(TypeError, match="context: expected arms with named features"):
        bandit.choose("ann", np.zeros((2, 16), np.float32), context={"a": 1})
    with pytest.raises((TypeError, ValueError), match="features: expected what JSON can hold"):
        bandit.choose("ann", {"tea": {"x": float("nan")}})


def scores_of(bandit, arms):
    bandit.choose(0, arms)
    return bandit.scores(0, arms)


@pytest.mark.parametrize("how", ["epsilon", "softmax", "squarecb"])
def test_an_exploring_bandit_knows_its_probabilities(how):
    chance = np.random.default_rng(4)
    arms = chance.normal(size=(4, 6)).astype(np.float32)
    bandit = mcnb.Bandit("linucb", features=6, alpha=0.5)
    for _ in range(30):
        bandit.learn(0, arms[chance.integers(4)], chance.random())
    amount = {"epsilon": 0.4, "softmax": 0.3, "squarecb": 20.0}[how]
    exploring = mcnb.Exploring(bandit, seed=5, **{how: amount})
    scores = scores_of(bandit, arms)
    estimates, values = scores["estimate"], scores["value"]
    if how == "epsilon":
        expected = np.full(4, amount / 4)
        expected[values.argmax()] += 1 - amount
    elif how == "softmax":
        expected = np.exp(estimates / amount) / np.exp(estimates / amount).sum()
    else:
        gaps = estimates.max() - estimates
        expected = 1 / (4 + amount * gaps)
        expected[gaps.argmin()] = 0
        expected[gaps.argmin()] = 1 - expected.sum()
    counts = np.zeros(4)
    for _ in range(3000):
        choice = exploring.choose(0, arms)
        np.testing.assert_allclose(choice.probabilities, expected, atol=1e-9)
        assert choice.probability == choice.probabilities[choice.arm]
        counts[choice.arm] += 1
    np.testing.assert_allclose(counts / 3000, expected, atol=0.05)
    named = exploring.choose("ann", {"x": {"a": 1}, "y": {"b": 1}})
    assert named.arm in ("x", "y")
    exploring.learn("ann", {"a": 1}, 1.0)


def test_an_exploring_bandit_refuses_what_it_cannot_do():
    bandit = mcnb.Bandit("linucb", features=2)
    with pytest.raises(ValueError, match="expected one of epsilon, softmax and squarecb, got 2"):
        mcnb.Exploring(bandit, epsilon=0.1, softmax=1)
    with pytest.raises(ValueError, match="epsilon"):
        mcnb.Exploring(bandit, epsilon=1.5)
    with pytest.raises(TypeError, match="bandit: expected a Bandit"):
        mcnb.Exploring("linucb", epsilon=0.1)


def test_what_made_a_bandit_makes_another():
    bandit = mcnb.Bandit("mcnb", features=4, users=3, seed=9, gamma=0.3)
    parameters = bandit.get_params()
    other = mcnb.Bandit(**parameters)
    assert other.get_params() == parameters
    arms = np.ones((3, 4), np.float32)
    assert np.array_equal(other.scores(1, arms), bandit.scores(1, arms))
