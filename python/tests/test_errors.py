"""Errors name the wrong argument, what was expected, and what was given."""

import os
import subprocess
import sys

import numpy as np
import pytest

import mcnb
from conftest import unit_rows

ARMS = unit_rows(1, 4, 6)


@pytest.fixture(scope="module")
def bandit():
    return mcnb.Bandit("mcnb", features=6, users=3, width=10)


@pytest.mark.parametrize("user, arms, more, kind, text", [
    (0, ARMS[0], {}, ValueError,
     r"arms: expected numbers of shape \(arms, 6\) or \(rounds, arms, 6\), got shape \(6,\)"),
    (0, ARMS[:, :5], {}, ValueError, r"arms: expected shape \(arms, 6\), got shape \(4, 5\)"),
    (0, ARMS[None, :, :5], {}, ValueError,
     r"arms: expected shape \(rounds, arms, 6\), got shape \(1, 4, 5\)"),
    (0, ARMS[:0], {}, ValueError, "arms: expected 1 to 10000 of them, got 0"),
    (0, np.zeros((10001, 6)), {}, ValueError, "arms: expected 1 to 10000 of them, got 10001"),
    (0, np.where(ARMS == ARMS[2, 1], np.nan, ARMS), {}, ValueError,
     r"arms: expected finite numbers .*, got nan at \[2, 1\]"),
    (0, np.full((4, 6), 1e300), {}, ValueError, r"arms: expected finite .*, got inf at \[0, 0\]"),
    (0, ARMS.astype(complex), {}, TypeError,
     "arms: expected numbers .*, got an array of complex128"),
    (0, [["a"] * 6], {}, TypeError, "arms: expected numbers .*, got list"),
    (0, [[1, 2], [3]], {}, TypeError, "arms: expected numbers .*, got list"),
    (0, None, {}, TypeError, "arms: expected numbers .*, got NoneType"),
    (3, ARMS, {}, ValueError, "user: expected 0 to 2, got 3"),
    (-1, ARMS, {}, ValueError, "user: expected 0 to 2, got -1"),
    (2**64, ARMS, {}, ValueError, "user: expected 0 to 2, got 18446744073709551616"),
    (-2**70, ARMS, {}, ValueError, "user: expected 0 to 2, got -1180591620717411303424"),
    (np.uint64(2**63), ARMS, {}, ValueError, "user: expected 0 to 2, got 9223372036854775808"),
    (np.array([0, 1, 2, 2**63], np.uint64), ARMS, {}, ValueError,
     r"user: expected 0 to 2, got 9223372036854775808 at \[3\]"),
    ([0, 0, 0, 2**63], ARMS, {}, ValueError, "user: expected 0 to 2, got 9223372036854775808"),
    ([0, 0, 0, 2**64], ARMS, {}, ValueError, "user: expected 0 to 2, got 18446744073709551616"),
    (True, ARMS, {}, TypeError, "user: expected a whole number .*, got bool"),
    (np.True_, ARMS, {}, TypeError, "user: expected a whole number .*, got bool"),
    (np.array(True), ARMS, {}, TypeError, "user: .*, got an array of bool"),
    ([True, False, True, True], ARMS, {}, TypeError, "user: expected a whole number .*, got list"),
    ([0, 1, 2, 3], ARMS, {}, ValueError, r"user: expected 0 to 2, got 3 at \[3\]"),
    ([0, 1], ARMS, {}, ValueError,
     r"user: expected a whole number or an array of shape \(4,\), got shape \(2,\)"),
    ([0, 1], ARMS[None], {}, ValueError,
     r"user: .* array of shape \(1, 4\) or \(1,\), got shape \(2,\)"),
    (0.5, ARMS, {}, TypeError, "user: expected a whole number .*, got float"),
    (np.zeros(4), ARMS, {}, TypeError, "user: expected a whole number .*, got an array of float64"),
    ("ann", ARMS, {}, TypeError, "user: expected a whole number .*, got str"),
    (None, ARMS, {}, TypeError, "user: expected a whole number .*, got NoneType"),
    (0, ARMS, {"items": [1, 2]}, ValueError, r"items: .* shape \(4,\), got shape \(2,\)"),
    (0, ARMS, {"items": -5}, ValueError, "items: expected 0 to 4294967294, got -5"),
    (0, ARMS, {"offsets": 0, "items": 1.5}, TypeError, "items: expected a whole number"),
    (0, ARMS[:, :4], {"offsets": [0, 1, 2, 3]}, ValueError,
     "offsets: expected at most 2, as a block of 4 has to end within 6 features, got 3"),
    (0, ARMS, {"round": -1}, ValueError, "round: expected 0 to .*, got -1"),
    (0, ARMS, {"round": "x"}, TypeError, "round: expected a whole number"),
    (0, ARMS, {"round": 2**64}, ValueError, "round: expected 0 to .*, got 18446744073709551616"),
])
@pytest.mark.filterwarnings("ignore:overflow")
def test_rounds_that_are_none(bandit, user, arms, more, kind, text):
    before = bandit.to_bytes()
    for call in (bandit.choose, bandit.scores, bandit.predict, bandit.predict_expectations):
        with pytest.raises(kind, match=text):
            call(user, arms, **more)
    assert bandit.to_bytes() == before


@pytest.mark.parametrize("user, arm, reward, kind, text", [
    (0, ARMS[0][:3], 1, ValueError, r"arm: expected shape \(6,\), got shape \(3,\)"),
    (0, ARMS[None], 1, ValueError,
     r"arm: expected numbers of shape \(6,\) or \(arms, 6\), got shape \(1, 4, 6\)"),
    (0, [np.nan] * 6, 1, ValueError, r"arm: expected finite numbers .*, got nan at \[0\]"),
    (0, "arm", 1, TypeError, "arm: expected numbers .*, got str"),
    (9, ARMS[0], 1, ValueError, "user: expected 0 to 2, got 9"),
    (0, ARMS[0], np.nan, ValueError, "reward: expected a number from .*, got nan"),
    (0, ARMS[0], np.inf, ValueError, "reward: expected a number from .*, got inf"),
    (0, ARMS[0], 2e6, ValueError, r"reward: expected a number from -1000000.* to 1000000.*, got 2"),
    (0, ARMS[0], [1, 0], ValueError, r"reward: expected one number, got shape \(2,\)"),
    (0, ARMS[0], "much", TypeError, "reward: expected one number, got str"),
    (0, ARMS[0], None, TypeError, "reward: expected one number, got NoneType"),
    ([0, 1, 2, 0], ARMS, [1, 0], ValueError,
     r"reward: expected numbers of shape \(4,\), got shape \(2,\)"),
    ([0, 1, 2, 0], ARMS, [1, 0, np.nan, 1], ValueError, r"reward: .*, got nan at \[2\]"),
    ([0, 1], ARMS, [1, 0, 0, 1], ValueError, r"user: .* shape \(4,\), got shape \(2,\)"),
])
def test_feedback_that_is_none(bandit, user, arm, reward, kind, text):
    before = bandit.to_bytes()
    for call in (bandit.learn, bandit.start, bandit.partial_fit):
        with pytest.raises(kind, match=text):
            call(user, arm, reward)
    assert bandit.to_bytes() == before


@pytest.mark.parametrize("arguments, kind, text", [
    ({"policy": "mcbn"}, ValueError, 'policy "mcbn": expected one of club, .*mcnb'),
    ({"policy": 3}, TypeError, "policy: expected a name, got int"),
    ({"features": 0}, ValueError, "features: expected a whole number from 1, got 0"),
    ({"features": 1.5}, TypeError, "features: expected a whole number, got float"),
    ({"users": 0}, ValueError, "users: expected a whole number from 1, got 0"),
    ({"seed": -1}, ValueError, "seed: expected a whole number from 0, got -1"),
    ({"threads": 5000}, ValueError, "threads: expected 0 to 1024, got 5000"),
    ({"block": 4}, ValueError, "block: expected a divisor of features, which is 6, got 4"),
    ({"gama": 1}, ValueError, "gama: expected one of the options .*gamma"),
    ({"gamma": -1}, ValueError, 'gamma: expected a number in .*, got "-1"'),
    ({"gamma": "much"}, ValueError, 'gamma: expected a number in .*, got "much"'),
    ({"gamma": np.nan}, ValueError, 'gamma: expected a number in .*, got "nan"'),
    ({"gamma": [1]}, TypeError, "option gamma: expected a number, .*, got list"),
    ({"preset": "best"}, ValueError, "preset: expected .*default"),
    ({"policy": "mcnb:gamma=0.1", "gamma": 0.2}, ValueError, "options: expected gamma once"),
    ({"options": {"gamma": 0.1}, "gamma": 0.2}, ValueError, "options: expected gamma once"),
    ({"user_features": np.ones(3)}, ValueError,
     r"user_features: expected numbers of shape \(3, features\), got shape \(3,\)"),
    ({"user_features": np.full((3, 2), np.nan)}, ValueError, "user_features: expected finite"),
    ({"policy": "neuau"}, ValueError, "features"),
    ({"device": "tpu"}, ValueError, 'device: expected cpu or cuda, got "tpu"'),
    ({"device": 0}, ValueError, 'device: expected cpu or cuda, got "0"'),
    ({"device": "cuda", "policy": "linucb"}, ValueError, "option device: expected cpu"),
    ({"device": "cuda", "scan": "sampled"}, ValueError, "option scan: expected all"),
])
def test_bandits_that_cannot_be(arguments, kind, text):
    with pytest.raises(kind, match=text):
        mcnb.Bandit(**{"policy": "mcnb", "features": 6, "users": 3, **arguments})


@pytest.mark.parametrize("seed", [2**63, 2**64, 2**100])
def test_seeds_have_63_bits(seed):
    text = f"expected a whole number up to {2**63 - 1}, got {seed}"
    for call in (lambda: mcnb.Bandit("mcnb", features=6, seed=seed),
                 lambda: mcnb.environments.synthetic(seed=seed),
                 lambda: mcnb.environments.synthetic()(seed)):
        with pytest.raises(ValueError, match="^seed: " + text):
            call()
    with pytest.raises(ValueError, match="^seeds: " + text):
        mcnb.run("synthetic", "random", 1, [seed])
    assert mcnb.Bandit("mcnb", features=6, seed=2**63 - 1).seed == 2**63 - 1


@pytest.mark.parametrize("given, kind, text", [
    (1.5, TypeError, "expected a whole number .*, got float"),
    ("two", TypeError, "expected a whole number .*, got str"),
    (True, TypeError, "expected a whole number .*, got bool"),
    (np.False_, TypeError, "expected a whole number .*, got bool"),
    (None, TypeError, "expected a whole number .*, got NoneType"),
    ([1], TypeError, "expected a whole number .*, got list"),
    (np.array([1]), TypeError, "expected a whole number .*, got an array of int64"),
    (-1, ValueError, "expected .* to .*, got -1"),
    (2**64, ValueError, "expected .* to .*, got 18446744073709551616"),
])
def test_one_whole_number_is_one(bandit, given, kind, text):
    before = bandit.to_bytes()
    for name, call in (("count", bandit.add_users), ("user", bandit.forget)):
        with pytest.raises(kind, match=f"^{name}: {text}"):
            call(given)
    assert bandit.to_bytes() == before
    if kind is TypeError:
        for name in ("features", "users", "seed", "threads", "block"):
            with pytest.raises(TypeError, match=f"^{name}: expected a whole number, got"):
                mcnb.Bandit("mcnb", **{"features": 6, name: given})


def test_paths_that_are_none(bandit, tmp_path):
    missing = tmp_path / "nothing"
    with pytest.raises(FileNotFoundError) as refusal:
        mcnb.Bandit.load(missing)
    assert refusal.value.filename == str(missing) and str(missing) in str(refusal.value)
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        mcnb.Bandit.load(tmp_path)
    with pytest.raises(OSError, match="nothing/below"):
        bandit.save(missing / "below")
    for call in (mcnb.Bandit.load, bandit.save):
        with pytest.raises(TypeError, match="^path: expected a path, got int"):
            call(3)
        with pytest.raises(ValueError, match="^path: expected a path, got 'a.x00b'"):
            call("a\0b")
        with pytest.raises(ValueError, match="^path: expected a path, got ''"):
            call("")
    bandit.save(bytes(tmp_path / "state"))
    assert mcnb.Bandit.load(bytes(tmp_path / "state")).to_bytes() == bandit.to_bytes()


@pytest.mark.parametrize("large", [np.full((4, 6), 1e300), np.full((4, 6), -1e39).tolist(),
                                   np.full((4, 6), np.longdouble(1e300))])
def test_what_single_precision_cannot_hold_is_refused_whatever_numpy_does(bandit, large):
    before = bandit.to_bytes()
    for mood in ("ignore", "raise"):
        with np.errstate(all=mood):
            for call in (bandit.choose, bandit.scores):
                with pytest.raises(ValueError, match=r"^arms: expected finite .* at \[0, 0\]"):
                    call(0, large)
            for call in (bandit.learn, bandit.start):
                with pytest.raises(ValueError, match=r"^arm: expected finite .* at \[0\]"):
                    call(0, large[0], 1)
                with pytest.raises(ValueError, match="^reward: expected a number from .*inf"):
                    call(0, ARMS[0], 1e300)
            with pytest.raises(ValueError, match="^user_features: expected finite"):
                mcnb.Bandit("neuau", features=6, users=4, user_features=large)
            own = bandit.parameters(1)
            with pytest.raises(ValueError, match=r"^values\[1\]: expected finite"):
                bandit.set_parameters(1, [own[0], np.full(own[1].shape, 1e300)])
    assert bandit.to_bytes() == before


def test_what_single_precision_takes_for_zero_is_zero(bandit):
    with np.errstate(all="raise"):
        tiny = bandit.scores(0, np.full((4, 6), 1e-300))
    assert np.array_equal(tiny, bandit.scores(0, np.zeros((4, 6))))


def test_features_have_to_be_told():
    with pytest.raises(TypeError, match="features"):
        mcnb.Bandit("mcnb")


def test_parameters_that_are_none(bandit):
    own = bandit.parameters(1)
    for who, values, text in [
        ("mata", own, "who: expected \"meta\" or a user, got 'mata'"),
        (7, own, "who: expected 0 to 2, got 7"),
        (1, own[:1], "values: expected a list of 2 arrays, .*, got a list of 1"),
        (1, [own[0].T, own[1]],
         r"values\[0\]: expected numbers of shape \(6, 10\), got shape \(10, 6\)"),
        (1, [own[0] * np.nan, own[1]], r"values\[0\]: expected finite numbers"),
    ]:
        with pytest.raises(ValueError, match=text):
            bandit.set_parameters(who, values)
    with pytest.raises(TypeError, match="who: expected a whole number .*, got float"):
        bandit.parameters(1.5)
    with pytest.raises(TypeError, match="who: expected a whole number .*, got bool"):
        bandit.set_parameters(True, own)
    with pytest.raises(ValueError, match="who: expected 0 to 2, got 18446744073709551616"):
        bandit.parameters(2**64)
    with pytest.raises(ValueError, match="policy linucb: it shows no parameters"):
        mcnb.Bandit("linucb", features=6).parameters("meta")


def test_a_step_out_of_the_finite_numbers_is_refused():
    bandit = mcnb.Bandit("mcnb", features=6, users=3, normalise="none")
    bandit.set_parameters(0, [layer * 0 + 1e30 for layer in bandit.parameters(0)])
    arms = np.full((300, 6), 1e30)
    with pytest.raises(ValueError, match="finite numbers"):
        bandit.learn(0, arms[0], 1)
    refusal = r"reward: \d+ of 300 were refused, .*; reward\[0\]: .*finite numbers"
    with pytest.raises(ValueError, match=refusal):
        bandit.learn(0, arms, np.ones(300))


@pytest.mark.parametrize("policy", ["mcnb", "neuucb-one:training=online", "linucb"])
def test_arms_of_any_length_and_large_rewards_are_learned(policy):
    random = np.random.default_rng(1)
    bandit = mcnb.Bandit(policy, features=10, users=3)
    for step in range(200):
        arms = random.normal(size=(8, 10)) * 10.0 ** random.uniform(-6, 6)
        chosen = bandit.choose(step % 3, arms)
        bandit.learn(step % 3, arms[chosen], random.choice([-1e6, 1e6, 0.5]))
    assert np.isfinite(bandit.scores(0, arms)["value"]).all()


def test_arms_drawn_from_a_normal_distribution_are_learned():
    random = np.random.default_rng(2)
    bandit = mcnb.Bandit(features=10, users=5)
    for step in range(500):
        arms = random.normal(size=(8, 10))
        chosen = bandit.choose(step % 5, arms)
        bandit.learn(step % 5, arms[chosen], float(arms[chosen, 0] > 0))


@pytest.mark.parametrize("arguments, kind, text", [
    (("synthtic", "mcnb", 10, 1), ValueError, "environment.*synthetic"),
    (("synthetic", "mcbn", 10, 1), ValueError, 'policy "mcbn"'),
    (("synthetic", [], 10, 1), ValueError, "policies: expected at least one"),
    (("synthetic", ["mcnb", "mcnb"], 10, 1), ValueError, "policies: expected every label once"),
    (("synthetic", [3], 10, 1), TypeError, "policies: expected names"),
    (("synthetic", 3, 10, 1), TypeError, "policies: expected names"),
    (("synthetic", "mcnb", 0, 1), ValueError, "rounds: expected a whole number from 1, got 0"),
    (("synthetic", "mcnb", 10, 0), ValueError, "seeds: expected a whole number from 1, got 0"),
    (("synthetic", "mcnb", 10, [1, 1]), ValueError, "seeds: expected at least one, each once"),
    (("synthetic", "mcnb", 10, ["a"]), TypeError, "seeds: expected a whole number, got str"),
    ((3, "mcnb", 10, 1), TypeError, "environment: expected a name"),
    ((lambda seed: 3, "mcnb", 10, 1), TypeError, "environment: expected it to make an"),
    (("synthetic", [lambda setup: 3], 10, 1), TypeError, "to make an mcnb.Policy"),
    (("synthetic", "neuau:width=0", 10, 1), ValueError, "width"),
])
def test_runs_that_cannot_be(arguments, kind, text):
    with pytest.raises(kind, match=text):
        mcnb.run(*arguments)
    with pytest.raises(TypeError, match="progress: expected"):
        mcnb.run("synthetic", "random", 1, 1, progress="yes")


def test_environments_that_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="environment.*synthetic"):
        mcnb.environments.make("sinthetic")
    with pytest.raises(ValueError, match="one of the options"):
        mcnb.environments.synthetic(user=3)
    with pytest.raises(ValueError, match="movielens"):
        mcnb.environments.movielens(data=tmp_path)(1)
    with pytest.raises(AttributeError, match="sinthetic"):
        mcnb.environments.sinthetic
    with pytest.raises(ValueError, match="next_round comes first"):
        mcnb.environments.synthetic(users=5)(1).reward(0)


def import_with(simd):
    environment = dict(os.environ, MCNB_SIMD=simd)
    return subprocess.run([sys.executable, "-c", "import mcnb; print(mcnb.simd_target)"],
                          env=environment, capture_output=True, text=True)


def test_the_variable_for_the_instruction_set_is_honoured_or_refused():
    assert import_with("plain").stdout == "plain\n"
    refused = import_with("nonsense")
    assert refused.returncode != 0
    assert "MCNB_SIMD: SIMD target: expected one of " in refused.stderr
