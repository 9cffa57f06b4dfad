"""Policies and environments written in Python."""

import itertools

import numpy as np
import pytest

import mcnb
from conftest import SMALL, samples_file, unit_rows


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
    """The engine's linucb:users=each in Python, in double precision. Its choices can be compared
    with those of the engine."""

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
    """Every user likes one of the arms; the features show which one."""

    users, features = 3, 3

    def __init__(self, seed):
        self.chance = np.random.default_rng(seed)

    def next_round(self):
        self.user = int(self.chance.integers(3))
        return self.user, np.eye(3), np.eye(3)[self.user]


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
    """Two classes with a block of two features each, and start data for them."""

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
    assert result.quality["Curious"].rounds.tolist() == [2]  # the first arm has no known truth


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


# Without a preset M-CNB uses the one for the kind of data, which own environments do not tell.
@pytest.mark.parametrize("policy", ["mcnb:preset=default-classification", "linucb:users=each"])
def test_worlds_of_the_engine_play_as_own_environments(policy, tmp_path):
    """Environments with blocks and unknown clusters, and the synthetic one."""
    for named in (mcnb.environments.samples(file=str(samples_file(tmp_path))),
                  mcnb.environments.synthetic(**SMALL)):
        ours = mcnb.run(named, policy, rounds=40, seeds=[3])
        own = mcnb.run(lambda seed: named(seed), policy, rounds=40, seeds=[3])
        assert np.array_equal(own.regret, ours.regret) and np.array_equal(own.reward, ours.reward)
        assert set(own.quality) == set(ours.quality)


def test_mcnb_has_the_preset_of_the_kind_of_data(tmp_path):
    named = mcnb.environments.samples(file=str(samples_file(tmp_path)))
    by_itself = mcnb.run(named, "mcnb", rounds=40, seeds=[3])
    for preset, equal in (("default-classification", True), ("default", False)):
        said = mcnb.run(named, f"mcnb:preset={preset}", rounds=40, seeds=[3])
        assert np.array_equal(by_itself.training_steps, said.training_steps) == equal


@pytest.mark.parametrize("change, kind, text", [
    ({"block": 3}, ValueError, "block: expected a divisor of features, which is 4, got 3"),
    ({"start_data": lambda self: [(0, [1, 0, 0], 1.0, 0)]}, ValueError,
     r"start_data, features: expected shape \(2\), got shape \(3,\)"),
    ({"start_data": lambda self: [(0, [1, 0], 1.0)]}, ValueError,
     r"start_data, features: expected shape \(4\), got shape \(2,\)"),
    ({"start_data": lambda self: [(0, [1, 0], 1.0, 3)]}, ValueError,
     "start_data, offset: expected 0 to 2, got 3$"),
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
            return float(self.chance.integers(2))  # a second call would return another reward

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


@pytest.mark.parametrize("answer, kind, text", [
    (10, ValueError, "Wrong.choose: expected 0 to 9, got 10"),
    (-1, ValueError, "Wrong.choose: expected 0 to 9, got -1"),
    (1.5, TypeError, "Wrong.choose: expected the index of an arm, got float"),
    (None, TypeError, "Wrong.choose: expected the index of an arm, got NoneType"),
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
