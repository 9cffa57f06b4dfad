"""mcnb.run, environments, and policies and environments written in Python."""

import copy
import itertools
import os
import pickle
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import mcnb
from conftest import run_script, unit_rows

SMALL = {"users": 12, "features": 5, "items": 60}


class Greedy(mcnb.Policy):
    """A ridge regression for every user, without exploration."""

    def __init__(self, setup):
        self.moments = np.tile(np.eye(setup.features), (setup.users, 1, 1))
        self.sums = np.zeros((setup.users, setup.features))

    def choose(self, user, arms):
        return np.argmax(arms @ np.linalg.solve(self.moments[user], self.sums[user]))

    def learn(self, user, arm, reward):
        self.moments[user] += np.outer(arm, arm)
        self.sums[user] += reward * arm


class LinUcb(mcnb.Policy):
    """The engine's linucb:users=each again, in double precision: an own policy that can be told
    right from wrong."""

    def __init__(self, setup):
        self.inverse = np.tile(np.eye(setup.features), (setup.users, 1, 1))
        self.sums = np.zeros((setup.users, setup.features))
        self.rewards = 0

    def choose(self, user, arms):
        arms = arms.astype(float)
        estimate = arms @ (self.inverse[user] @ self.sums[user])
        variance = np.einsum("ij,jk,ik->i", arms, self.inverse[user], arms)
        return int(np.argmax(estimate + np.sqrt(variance * np.log(2 + self.rewards))))

    def start(self, user, arm, reward):
        self.take(user, arm.astype(float), reward)

    def learn(self, user, arm, reward):
        self.take(user, arm.astype(float), reward)
        self.rewards += 1

    def take(self, user, arm, reward):
        along = self.inverse[user] @ arm
        self.inverse[user] -= np.outer(along, along) / (1 + arm @ along)
        self.sums[user] += reward * arm


class Coins(mcnb.Environment):
    """Every user likes one of the arms, whose features say which it is."""

    users, features = 3, 3

    def __init__(self, seed):
        self.chance = np.random.default_rng(seed)

    def next_round(self):
        self.user = int(self.chance.integers(3))
        return self.user, np.eye(3), np.eye(3)[self.user]


def test_results_are_arrays():
    result = mcnb.run(mcnb.environments.synthetic(**SMALL), ["mcnb", "random"], rounds=1200,
                      seeds=3)
    assert result.policies == ["mcnb", "random"] and result.seeds == [1, 2, 3]
    assert result.rounds[-1] == 1200 and result.regret.shape == (2, 3, len(result.rounds))
    assert (np.diff(result.regret, axis=2) >= 0).all()
    for table in (result.reward, result.seconds, result.memory, result.training_steps):
        assert table.shape == (2, 3)
    assert np.array_equal(result.of("mcnb"), result.regret[0])
    assert result.final_regret[0].mean() < result.final_regret[1].mean()
    assert 0 <= result.quality["mcnb"].precision.min() <= result.quality["mcnb"].recall.max() <= 1
    rows = result.summary()
    assert rows[0]["regret"] == result.final_regret[0].mean()
    assert "mcnb" in str(result) and "3 seeds" in repr(result)
    assert "<td>random</td>" in result._repr_html_()
    with pytest.raises(ValueError, match="policy: expected one of mcnb, random, got 'x'"):
        result.of("x")


def test_frames_where_pandas_is_installed():
    import pandas

    result = mcnb.run(mcnb.environments.synthetic(**SMALL), ["random", "oracle"], 20, [4, 9])
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == result.regret.size
    assert list(frame.columns) == ["policy", "seed", "round", "regret"]
    one = frame[(frame.policy == "oracle") & (frame.seed == 9)]
    assert np.array_equal(one.regret, result.regret[1, 1])
    assert np.array_equal(one["round"], result.rounds)
    summary = result.summary_frame()
    assert summary.loc["oracle", "regret"] == 0 and list(summary.index) == ["random", "oracle"]
    assert summary.loc["random", "reward"] == result.reward[0].mean()
    means = frame[frame["round"] == 20].groupby("policy").regret.mean()
    assert means["random"] == summary.loc["random", "regret"]


def test_without_pandas_frames_say_what_is_missing(monkeypatch):
    result = mcnb.run(mcnb.environments.synthetic(**SMALL), "random", 20, 1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    for frame in (result.to_frame, result.summary_frame):
        with pytest.raises(ImportError, match="python3-pandas"):
            frame()


def test_pictures_show_every_policy(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    result = mcnb.run(mcnb.environments.synthetic(**SMALL), ["club", "random"], 50, 2)
    axes = mcnb.plot.regret(result, title="small")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["club", "random"]
    assert np.array_equal(axes.lines[0].get_ydata(), result.regret[0].mean(axis=0))
    axes.figure.savefig(tmp_path / "regret.png")
    assert (tmp_path / "regret.png").stat().st_size > 5000
    assert len(mcnb.plot.regret(result, ["club"], axes=axes).lines) == 3
    assert len(mcnb.plot.quality(result, "recall").lines) == 1
    with pytest.raises(ValueError, match="measure"):
        mcnb.plot.quality(result, "beauty")


def test_environments_are_walked_through():
    environment = mcnb.environments.synthetic(**SMALL, seed=2)
    assert environment.options["users"] == "12" and environment.name == "synthetic"
    rounds = list(itertools.islice(environment, 5))
    assert [round.id for round in rounds] == [0, 1, 2, 3, 4]
    again = environment(2)
    assert (again.users, again.features) == (12, 5)
    for round in rounds:
        other = again.next_round()
        assert round.user == other.user and np.array_equal(round.arms, other.arms)
        assert round.arms.shape == (10, 5) and round.arms.dtype == np.float32
        assert np.array_equal(round.rewards, other.rewards)
        assert round.expected[3] == again.expected_reward(3) and again.reward(3) == round.rewards[3]
        assert round.user in again.true_cluster(0)
        assert len(set(round.items.tolist())) == 10
        assert np.array_equal(round.users, [round.user] * 10)
    assert len(again.start_data()) == 12
    assert {"synthetic", "movielens", "mnist+notmnist"} <= set(mcnb.environments.names())
    assert "fashion_mnist" in dir(mcnb.environments)
    assert mcnb.environments.mnist_notmnist.__doc__ == "digits and letters, each with equal chance"
    assert mcnb.environments.describe("synthetic")["options"][0]["name"] == "users"


def test_an_own_policy_plays_in_the_same_runner():
    policies = {"ours": "linucb:users=each:alpha=1:lambda=1", "theirs": LinUcb, "greedy": Greedy,
                "random": "random"}
    result = mcnb.run(mcnb.environments.synthetic(**SMALL), policies, rounds=400, seeds=2)
    assert result.policies == list(policies)
    assert result.final_regret[1] == pytest.approx(result.final_regret[0], rel=1e-3)
    assert (result.final_regret[2] < result.final_regret[3]).all()


def test_an_own_policy_sees_the_round(tmp_path):
    seen = []

    class Curious(mcnb.Policy):
        def choose(self, user, arms):
            seen.append((user, arms, self.round))
            return len(arms) - 1

        def learn(self, user, arm, reward):
            seen[-1] += (user, arm, reward)

        def start(self, user, arm, reward):
            assert self.round is None and arm.shape == (5,)

        def cluster(self, user, arm):
            return [self.setup.users - 1, user]

    environment = mcnb.environments.synthetic(**SMALL)
    result = mcnb.run(environment, [Curious], rounds=4, seeds=[6])
    for known, (user, arms, round, of, arm, reward) in zip(environment(6), seen):
        assert user == known.user == of == round.user and round.id == known.id
        assert np.array_equal(arms, known.arms) and np.array_equal(round.items, known.items)
        assert np.array_equal(arm, known.arms[-1]) and reward == np.float32(known.rewards[-1])
        assert round.rewards is None
    assert len(seen) == 4 and result.quality["Curious"].recall.shape == (1, 4)


class Sometimes(mcnb.Policy):
    """Names clusters at some rounds with some seeds: when[seed] says at which."""

    when = {1: (), 2: (2, 4), 3: (3, 4)}

    def choose(self, user, arms):
        return 0

    def cluster(self, user, arm):
        return [user] if self.round.id + 1 in self.when[self.setup.seed] else None


class Never(Sometimes):
    when = {1: (), 2: (), 3: ()}


class NotAtFirst(Sometimes):
    when = {1: (1, 5), 2: (), 3: (5,)}


def test_rounds_without_clusters_are_not_counted():
    result = mcnb.run(mcnb.environments.synthetic(**SMALL), [Sometimes, Never, NotAtFirst, "club"],
                      rounds=5, seeds=3)
    assert set(result.quality) == {"Sometimes", "NotAtFirst", "club"}
    one = result.quality["Sometimes"]
    assert one.rounds.tolist() == [2, 3, 4]
    for numbers in (one.precision, one.recall, one.adjusted_rand):
        assert numbers.shape == (3, 3)
        assert np.isnan(numbers).tolist() == [[True] * 3, [False, True, False],
                                              [True, False, False]]
    assert np.nanmin(one.precision) == 1.0  # users agree with themselves
    other = result.quality["NotAtFirst"]
    assert other.rounds.tolist() == [1, 5]
    assert np.isnan(other.recall).tolist() == [[False, False], [True, True], [True, False]]
    assert result.quality["club"].rounds.tolist() == [1, 2, 3, 4, 5]
    assert not np.isnan(result.quality["club"].recall).any()
    pytest.importorskip("matplotlib").use("agg")
    line = mcnb.plot.quality(result, "precision").lines[0]
    assert line.get_ydata().tolist() == [1.0, 1.0, 1.0]


def samples_file(folder):
    path = folder / "samples.csv"
    path.write_text("".join(f"{label + 1},{i},{label}\n" for label in (0, 1) for i in range(5)))
    return path


def test_own_policies_see_blocks_and_the_users_of_arms(tmp_path):
    path = samples_file(tmp_path)
    seen = []

    class Curious(mcnb.Policy):
        def choose(self, user, arms):
            seen.append((user, arms.shape, self.round.offsets))
            return 0

    mcnb.run(mcnb.environments.samples(file=str(path)), Curious, rounds=2, seeds=1)
    user, shape, offsets = seen[0]
    assert user.tolist() == [0, 1] and shape == (2, 2) and offsets.tolist() == [0, 2]


class Blocks(mcnb.Environment):
    """Two classes with a block of two features each, and what is known of them before."""

    users, features, block = 2, 4, 2

    def __init__(self, seed):
        self.chance = np.random.default_rng(seed)

    def start_data(self):
        return [(1, [0.5, -0.5], 1.0, 2), (0, [0.25, 0.75], 0.0, 0)]

    def next_round(self):
        both = np.tile(self.chance.normal(size=2), (2, 1))
        return mcnb.Round([0, 1], both, [both[0, 0] > 0, both[0, 0] <= 0], offsets=[0, 2])

    def true_cluster(self, arm):
        return None if arm == 0 else [arm]


def test_own_policies_are_told_where_blocks_begin():
    told = []

    class Curious(mcnb.Policy):
        def start(self, user, arm, reward):
            told.append(("start", user, arm.tolist(), reward, self.arm_offset))

        def choose(self, user, arms):
            assert self.round.offsets.tolist() == [0, 2]
            return self.round.id % 2

        def cluster(self, user, arm):
            told.append(("cluster", user, self.arm_offset))
            return [user]

        def learn(self, user, arm, reward):
            assert arm.shape == (2,)
            told.append(("learn", user, self.arm_offset))

    result = mcnb.run(Blocks, Curious, rounds=2, seeds=1)
    assert told == [("start", 1, [0.5, -0.5], 1.0, 2), ("start", 0, [0.25, 0.75], 0.0, 0),
                    ("cluster", 0, 0), ("learn", 0, 0), ("cluster", 1, 2), ("learn", 1, 2)]
    assert result.quality["Curious"].rounds.tolist() == [2]  # nobody knows about the first arm


def test_rounds_of_first_blocks_have_offsets_too():
    class FirstOnly(Blocks):
        def next_round(self):
            return mcnb.Round([0, 0], np.eye(2), [1, 0], offsets=[0, 0])

    class Curious(mcnb.Policy):
        def choose(self, user, arms):
            assert self.round.offsets.tolist() == [0, 0]
            return 0

    mcnb.run(FirstOnly, Curious, rounds=1, seeds=1)


@pytest.mark.parametrize("policy", ["mcnb", "linucb:users=each", "club", "neuucb-one:width=8"])
def test_own_environments_with_blocks_are_walked_as_they_are_run(policy):
    result = mcnb.run(Blocks, [policy], rounds=30, seeds=[4])
    world = Blocks(4)
    name, *options = policy.split(":")
    bandit = mcnb.Bandit(name, features=4, users=2, block=2, seed=4,
                         options=dict(option.split("=") for option in options))
    world.start(bandit)
    reward = 0.0
    for round in itertools.islice(world, 30):
        arm = bandit.choose(round.user, round.arms, offsets=round.offsets)
        bandit.learn(round.user[arm], round.arms[arm], round.rewards[arm],
                     offset=round.offsets[arm])
        reward += round.rewards[arm]
    assert reward == result.reward[0, 0]
    assert bandit.steps["training"] == result.training_steps[0, 0]


@pytest.mark.parametrize("policy", ["mcnb", "linucb:users=each"])
def test_worlds_of_the_engine_play_as_own_environments(policy, tmp_path):
    """Those with blocks, whose clusters nobody knows, and the synthetic one."""
    for named in (mcnb.environments.samples(file=str(samples_file(tmp_path))),
                  mcnb.environments.synthetic(**SMALL)):
        ours = mcnb.run(named, policy, rounds=40, seeds=[3])
        own = mcnb.run(lambda seed: named(seed), policy, rounds=40, seeds=[3])
        assert np.array_equal(own.regret, ours.regret) and np.array_equal(own.reward, ours.reward)
        assert set(own.quality) == set(ours.quality)


@pytest.mark.parametrize("change, kind, text", [
    ({"block": 3}, ValueError, "block: expected a divisor of features, which is 4, got 3"),
    ({"start_data": lambda self: [(0, [1, 0, 0], 1.0, 0)]}, ValueError,
     r"start_data, features: expected shape \(2\), got shape \(3,\)"),
    ({"start_data": lambda self: [(0, [1, 0], 1.0)]}, ValueError,
     r"start_data, features: expected shape \(4\), got shape \(2,\)"),
    ({"start_data": lambda self: [(0, [1, 0], 1.0, 3)]}, ValueError,
     "start_data, offset: expected 0 to 2, got 3"),
    ({"start_data": lambda self: [(0, [1, 0], 1.0, 1)]}, ValueError,
     "start_data, offset: expected multiples of block, which is 2, got 1"),
    ({"start_data": lambda self: [(2, [1, 0], 1.0, 0)]}, ValueError,
     "start_data, user: expected 0 to 1, got 2"),
    ({"start_data": lambda self: [(0.5, [1, 0], 1.0, 0)]}, TypeError,
     "start_data, user: expected whole numbers, got float64"),
    ({"start_data": lambda self: [(0, [1, 0], np.nan, 0)]}, ValueError,
     "start_data, reward: expected finite numbers"),
    ({"start_data": lambda self: [(0, [1, 0])]}, ValueError, "start_data: expected .*, got 2"),
    ({"next_round": lambda self: mcnb.Round(0, np.eye(2), [1, 0], offsets=[0, 1])}, ValueError,
     "offsets: expected multiples of block"),
    ({"next_round": lambda self: mcnb.Round(0, np.eye(3), [1, 0, 0], offsets=0)}, ValueError,
     r"arms: expected shape \(any, 2\), got shape \(3, 3\)"),
    ({"block": 0, "start_data": lambda self: [],
      "next_round": lambda self: mcnb.Round(0, np.eye(5), np.ones(5), offsets=0)}, ValueError,
     "offsets: expected blocks of at most 4 features, got 5"),
])
def test_blocks_that_cannot_be(change, kind, text):
    wrong = type("Wrong", (Blocks,), change)
    with pytest.raises(kind, match=text):
        mcnb.run(wrong, "linucb", rounds=2, seeds=1)


def test_rewards_are_asked_for_once():
    asked = []

    class Noted(Coins):
        def next_round(self):
            asked.append([])
            return super().next_round()[:2]

        def reward(self, arm):
            asked[-1].append(("reward", arm))
            return float(self.chance.integers(2))  # another call would get another answer

    class Exact(Noted):
        def expected_reward(self, arm):
            asked[-1].append(("expected", arm))
            return 0.5

    result = mcnb.run(Noted, Always, rounds=5, seeds=1)
    assert [sorted(calls) for calls in asked] == [[("reward", 0), ("reward", 1), ("reward", 2)]] * 5
    assert result.final_regret[0, 0] >= 0
    asked.clear()
    assert mcnb.run(Exact, Always, rounds=5, seeds=1).final_regret[0, 0] == 0
    assert [sorted(calls) for calls in asked] == [
        [("expected", 0), ("expected", 1), ("expected", 2), ("reward", 0)]] * 5


def test_a_reward_that_is_no_number_is_named():
    class Wordy(Coins):
        def next_round(self):
            return super().next_round()[:2]

        def reward(self, arm):
            return "much"

    with pytest.raises(TypeError, match="Wordy.reward: expected a number, got str"):
        mcnb.run(Wordy, "random", 3, 1)


def test_an_own_environment_plays_with_all_policies():
    class Clever(mcnb.Policy):
        def choose(self, user, arms):
            return user

    result = mcnb.run(Coins, ["mcnb", "linucb:users=each", Clever, "random", "oracle"], 300, 2)
    assert (result.final_regret[[2, 4]] == 0).all() and (result.reward[2] == 300).all()
    assert (result.final_regret[1] < result.final_regret[3] / 2).all()
    assert np.allclose(result.final_regret[3] + result.reward[3], 300)


def test_an_own_environment_may_know_more():
    class World(mcnb.Environment):
        users, features = 2, 2
        user_features = np.eye(2)

        def __init__(self, seed):
            self.count = 0

        def start_data(self):
            return [(0, [1, 0], 1.0), (1, [0, 1], 0.5)]

        def next_round(self):
            self.count += 1
            return mcnb.Round([0, 1], np.eye(2), items=[7, 8])

        def reward(self, arm):
            return self.count % 2 if arm == 0 else 1

        def expected_reward(self, arm):
            return 0.5 if arm == 0 else 1.0

        def true_cluster(self, arm):
            return [arm]

    result = mcnb.run(World, {"always 0": lambda setup: Always(setup), "neuau": "neuau:width=4"},
                      10, 1)
    assert result.final_regret[0, 0] == 5.0 and result.reward[0, 0] == 5.0
    started = []

    class Starter(Always):
        def start(self, user, arm, reward):
            started.append((user, arm.tolist(), reward))

    mcnb.run(World, Starter, 1, 1)
    assert started == [(0, [1, 0], 1.0), (1, [0, 1], 0.5)]


class Always(mcnb.Policy):
    def choose(self, user, arms):
        return 0


def test_bandits_play_and_stay_as_they_are():
    environment = mcnb.environments.synthetic(**SMALL)
    bandit = mcnb.Bandit("mcnb", features=5, users=12, seed=1)
    before = bandit.to_bytes()
    made = mcnb.run(environment, {"bandit": bandit, "name": "mcnb",
                                  "function": lambda setup: mcnb.Bandit(
                                      "mcnb", features=setup.features, users=setup.users,
                                      seed=setup.seed)}, 100, [1])
    assert bandit.to_bytes() == before
    assert np.array_equal(made.regret[0], made.regret[1])
    assert np.array_equal(made.regret[2], made.regret[1])
    with pytest.raises(ValueError, match="expected a bandit of 5 features and 12 users"):
        mcnb.run(environment, mcnb.Bandit("mcnb", features=5, users=3), 10, 1)


@pytest.mark.parametrize("answer, kind, text", [
    (10, ValueError, "Wrong.choose: expected 0 to 9, got 10"),
    (-1, ValueError, "Wrong.choose: expected 0 to 9, got -1"),
    (1.5, TypeError, "Wrong.choose: expected the place of an arm, got float"),
    (None, TypeError, "Wrong.choose: expected the place of an arm, got NoneType"),
])
def test_wrong_choices_are_refused(answer, kind, text):
    class Wrong(mcnb.Policy):
        def choose(self, user, arms):
            return answer

    with pytest.raises(kind, match=text):
        mcnb.run(mcnb.environments.synthetic(**SMALL), [Wrong, "random"], 10, 2)


def test_what_own_code_raises_comes_out():
    class Broken(mcnb.Policy):
        def choose(self, user, arms):
            raise LookupError("no idea")

    with pytest.raises(LookupError, match="no idea"):
        mcnb.run(mcnb.environments.synthetic(**SMALL), ["mcnb", Broken], 5000, 4)
    with pytest.raises(NotImplementedError, match="Policy has no choose"):
        mcnb.run(mcnb.environments.synthetic(**SMALL), mcnb.Policy, 5, 1)


@pytest.mark.parametrize("made, kind, text", [
    ((0, np.eye(2), [1, 0]), ValueError, r"arms: expected shape \(any, 3\), got shape \(2, 2\)"),
    ((0, np.full((2, 3), np.nan), [1, 0]), ValueError, "arms: expected finite numbers, got nan"),
    ((5, np.eye(3), [1, 0, 0]), ValueError, "user: expected 0 to 2, got 5"),
    ((0, np.eye(3), [1, 0]), ValueError, r"rewards: expected shape \(3\), got shape \(2,\)"),
    ((0, np.eye(3), [1, 0, np.inf]), ValueError, "rewards: expected finite numbers"),
    ((0, np.eye(3)), NotImplementedError, "expected rewards in the round, or a method reward"),
    ("round", TypeError, "next_round: expected a Round"),
    (StopIteration, ValueError, "the rounds have come to an end"),
])
def test_wrong_rounds_are_refused(made, kind, text):
    class Wrong(mcnb.Environment):
        users, features = 3, 3

        def __init__(self, seed):
            pass

        def next_round(self):
            if made is StopIteration:
                raise StopIteration
            return made

    with pytest.raises(kind, match=text):
        mcnb.run(Wrong, "random", 3, 1)


def test_own_environments_can_be_walked_through_to_their_end():
    class Short(mcnb.Environment):
        users, features = 1, 2

        def __init__(self):
            self.left = 3

        def next_round(self):
            if not self.left:
                raise StopIteration
            self.left -= 1
            return 0, unit_rows(self.left, 4, 2), [0, 1, 0, 0]

    assert [len(round.arms) for round in Short()] == [4, 4, 4]


def test_progress_is_told_and_shown():
    told = []
    mcnb.run(mcnb.environments.synthetic(**SMALL), ["mcnb", "random"], 200, 2,
             progress=lambda *numbers: told.append(numbers))
    assert told[-1] == (800, 800, 4, 4)
    assert told == sorted(told)
    shown = run_script("import mcnb; mcnb.run('synthetic', 'random', 500, 1, progress=True)")
    assert "100 %  1 of 1 runs" in shown.stderr and shown.stderr.endswith("\n")
    hidden = run_script("import mcnb; mcnb.run('synthetic', 'random', 500, 1)")
    assert hidden.stderr == ""


def test_what_progress_raises_stops_the_run():
    def enough(*numbers):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        mcnb.run("synthetic", "mcnb", rounds=10**9, seeds=1, progress=enough)


def thread_count():
    return len(os.listdir("/proc/self/task"))


def test_environments_have_no_idle_threads(tmp_path):
    before = thread_count()
    path = samples_file(tmp_path)
    kept = [mcnb.environments.synthetic(**SMALL), mcnb.environments.samples(file=str(path))]
    worlds = [environment(1) for environment in kept]
    mcnb.run(kept[1], "linucb", rounds=5, seeds=2)
    assert thread_count() == before and len(worlds) == 2


def test_environments_can_be_pickled_and_copied(tmp_path):
    path = samples_file(tmp_path)
    for environment in (mcnb.environments.synthetic(**SMALL, seed=5),
                        mcnb.environments.samples(file=str(path), data=tmp_path, seed=6)):
        expected = next(iter(environment))
        for make in (lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy):
            other = make(environment)
            assert (other.name, other.seed, other.options) == (
                environment.name, environment.seed, environment.options)
            round = next(iter(other))
            assert np.array_equal(round.arms, expected.arms)
            assert np.array_equal(round.rewards, expected.rewards)


@pytest.fixture(scope="module")
def many_ratings(tmp_path_factory):
    """A file that takes seconds to prepare."""
    chance = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("data") / "ratings.csv"
    rows = np.unique(np.stack([chance.integers(20_000, size=1_000_000),
                               chance.integers(5_000, size=1_000_000)], axis=1), axis=0)
    stars = chance.integers(1, 6, size=len(rows))
    path.write_text("".join(f"{user},{item},{star}\n" for (user, item), star
                            in zip(rows.tolist(), stars.tolist())))
    return path


@pytest.mark.parametrize("work", [
    lambda environment: environment(1),
    lambda environment: mcnb.run(environment, "random", rounds=1, seeds=1),
], ids=["world", "run"])
def test_signals_are_heard_while_data_is_read(many_ratings, tmp_path, monkeypatch, work):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment = mcnb.environments.ratings(file=str(many_ratings), users=50)

    def handler(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        with pytest.raises(KeyboardInterrupt):
            work(environment)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert kept == [], "the data was read and prepared to its end all the same"


def test_a_reading_that_was_stopped_can_be_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment = mcnb.environments.synthetic(**SMALL)

    def handler(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            mcnb.run(environment, "mcnb", rounds=10**9, seeds=1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert mcnb.run(environment, "random", rounds=5, seeds=1).rounds[-1] == 5


@pytest.mark.parametrize("policy", ["'mcnb'", "Own"])
def test_ctrl_c_stops_a_long_run(policy):
    script = textwrap.dedent(f"""
        import mcnb
        class Own(mcnb.Policy):
            def choose(self, user, arms):
                return 0
        def tell(rounds, *others):
            if rounds:
                print("running", flush=True)
        try:
            mcnb.run("synthetic", {policy}, rounds=10**9, seeds=2, progress=tell)
        except KeyboardInterrupt:
            print("stopped")
        """)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    assert "stopped\n" in process.communicate(timeout=60)[0]
    assert process.returncode == 0


def test_runs_that_are_given_one_bandit_do_not_share_it():
    bandit = mcnb.Bandit("linucb", features=8, users=20)
    world = mcnb.environments.synthetic(users=20)
    results = [mcnb.run(world, {"it": lambda setup: bandit}, rounds=200, seeds=4, threads=threads)
               for threads in (1, 2)]
    assert np.array_equal(results[0].regret, results[1].regret)
    assert bandit.last_round is None


def test_a_bandit_that_chooses_in_its_own_way_is_refused():
    class Stubborn(mcnb.Bandit):
        def choose(self, user, arms, **more):
            return 0

    with pytest.raises(TypeError, match="choose"):
        mcnb.run("synthetic", {"it": lambda setup: Stubborn(
            "linucb", features=setup.features, users=setup.users)}, rounds=5, seeds=1)


def test_an_entry_is_one_policy():
    with pytest.raises(ValueError, match="one policy"):
        mcnb.run("synthetic", {"both": "linucb,random"}, rounds=5, seeds=1)


def test_rewards_below_zero_have_a_regret():
    class Costs(mcnb.Environment):
        features, users = 1, 1

        def __init__(self, seed):
            pass

        def next_round(self):
            return mcnb.Round(0, np.ones((2, 1)), rewards=[-1.0, -3.0])

    class Best(mcnb.Policy):
        def choose(self, user, arms):
            return 0

    assert mcnb.run(Costs, Best, rounds=10, seeds=1).final_regret[0, 0] == 0.0
