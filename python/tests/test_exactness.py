"""Python and C++ give the same numbers, to the last bit, for the same seed and calls."""

import json

import numpy as np
import pytest

import mcnb
from conftest import unit_rows

WORLD = {"users": 20, "features": 6, "items": 200}
POLICIES = ["mcnb", "mcnb:preset=algorithm", "mcnb:preset=experiments:train_every=20", "club",
            "cofiba", "sclub", "locb", "linucb:users=each", "neuucb-one:width=20", "neuau:width=20",
            "neural-linear:width=20", "neuralts:width=20", "epsilon-greedy:width=20", "kernelucb",
            "random"]
ROUNDS = 60


def start(bandit, world):
    world.start(bandit)


def walk(bandit, world, rounds):
    """Does what the engine's runner does, in Python. Returns regret and reward."""
    regret = reward = 0.0
    for _ in range(rounds):
        round = world.next_round()
        more = {"items": round.items, "offsets": round.offsets}
        arm = bandit.choose(round.user, round.arms, **more)
        bandit.learn(int(round.users[arm]), round.arms[arm], round.rewards[arm],
                     item=None if round.items is None else round.items[arm],
                     offset=None if round.offsets is None else round.offsets[arm])
        reward += round.rewards[arm]
        regret += round.expected.max() - round.expected[arm]
    return regret, reward


def bandit_for(policy, world, seed):
    name, *options = policy.split(":")
    return mcnb.Bandit(name, features=world.features, users=world.users, seed=seed,
                       block=world.block, user_features=world.user_features,
                       options=dict(option.split("=") for option in options))


def test_a_run_in_python_is_the_run_of_the_program(run_program):
    policies = "mcnb,club,linucb:alpha=0.3,oracle"
    cells = run_program("--policy", policies, "--rounds", "700", "--seeds", "2", "--set",
                        "users=20", "--set", "features=6", "--set", "items=200")
    result = mcnb.run(mcnb.environments.synthetic(**WORLD), policies, rounds=700, seeds=2)
    assert [(cell["policy"], cell["seed"]) for cell in cells] == [
        (policy, seed) for seed in result.seeds for policy in result.policies]
    for cell in cells:
        p, s = result.policies.index(cell["policy"]), result.seeds.index(cell["seed"])
        assert cell["curve"]["round"] == result.rounds.tolist()
        assert cell["curve"]["regret"] == result.regret[p, s].tolist()
        assert cell["reward"] == result.reward[p, s]
        if cell["policy"] in result.quality:
            assert cell["quality"]["recall"] == result.quality[cell["policy"]].recall[s].tolist()
    assert set(result.quality) == {"mcnb", "club"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_loop_of_python_is_the_loop_of_the_engine(policy):
    environment = mcnb.environments.synthetic(**WORLD)
    result = mcnb.run(environment, [policy], rounds=ROUNDS, seeds=[3])
    world = environment(3)
    bandit = bandit_for(policy, world, 3)
    start(bandit, world)
    regret, reward = walk(bandit, world, ROUNDS)
    assert regret == result.final_regret[0, 0]
    assert reward == pytest.approx(result.reward[0, 0], rel=1e-12)
    assert bandit.steps["training"] == result.training_steps[0, 0]
    assert bandit.steps["adaptation"] == result.adaptation_steps[0, 0]


@pytest.fixture
def samples(tmp_path):
    """A CSV of labelled samples: arms are blocks, each with a user of its own."""
    chance = np.random.default_rng(4)
    rows = [[*chance.normal(label, 0.5, 4), label] for label in range(3) for _ in range(30)]
    path = tmp_path / "samples.csv"
    path.write_text("\n".join(",".join(str(value) for value in row) for row in rows) + "\n")
    return mcnb.environments.samples(file=str(path))


@pytest.mark.parametrize("policy", ["mcnb", "linucb:users=each", "club", "neuucb-one:width=20"])
def test_blocks_and_users_of_arms_are_the_engines_too(policy, samples):
    world = samples(2)
    assert (world.users, world.features, world.block) == (3, 12, 4)
    result = mcnb.run(samples, [policy], rounds=ROUNDS, seeds=[2])
    bandit = bandit_for(policy, world, 2)
    start(bandit, world)
    regret, reward = walk(bandit, world, ROUNDS)
    assert (regret, reward) == (result.final_regret[0, 0], result.reward[0, 0])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_saved_a_copied_and_a_pickled_bandit_go_on_bit_for_bit(policy, tmp_path):
    import pickle

    environment = mcnb.environments.synthetic(**WORLD)
    whole_world, world = environment(5), environment(5)
    whole, half = bandit_for(policy, world, 5), bandit_for(policy, world, 5)
    walk(whole, whole_world, 40)
    walk(half, world, 19)
    waiting = world.next_round()
    arm = half.choose(waiting.user, waiting.arms, items=waiting.items)
    half.save(tmp_path / "half")
    others = [mcnb.Bandit.load(tmp_path / "half"), half.copy(), pickle.loads(pickle.dumps(half))]
    rest = [world.next_round() for _ in range(20)]
    for bandit in [half, *others]:
        item = None if waiting.items is None else waiting.items[arm]
        bandit.learn(waiting.user, waiting.arms[arm], waiting.rewards[arm], item=item)
        for round in rest:
            chosen = bandit.choose(round.user, round.arms, items=round.items)
            bandit.learn(round.user, round.arms[chosen], round.rewards[chosen],
                         item=None if round.items is None else round.items[chosen])
    arms = unit_rows(1, 7, 6)
    expected = whole.scores(4, arms)
    for bandit in [half, *others]:
        assert np.array_equal(bandit.scores(4, arms), expected)
        assert bandit.last_round == whole.last_round


@pytest.mark.parametrize("policy", ["mcnb", "linucb", "club"])
def test_batches_are_their_parts_one_by_one(policy):
    users = np.array([0, 3, 1, 3])
    arms = unit_rows(8, 4, 5, 6)
    rewards = np.array([1, 0, 0.5, 1])
    parts = mcnb.Bandit(policy, features=6, users=5, seed=1)
    batch = parts.copy()
    for turn in range(6):
        rounds = range(4 * turn, 4 * turn + 4)
        scores = [parts.scores(users[i], arms[i], round=rounds[i]) for i in range(4)]
        assert np.array_equal(batch.scores(users, arms, round=rounds), np.array(scores))
        chosen = [parts.predict(users[i], arms[i], round=rounds[i]) for i in range(4)]
        assert batch.choose(users, arms).tolist() == chosen
        taken = arms[np.arange(4), chosen]
        for i in range(4):
            parts.learn(users[i], taken[i], rewards[i], round=rounds[i], index=chosen[i])
        batch.learn(users, taken, rewards)
        clusters = batch.cluster(users, taken)
        for i in range(4):
            assert np.array_equal(clusters[i], parts.cluster(users[i], taken[i]))
    assert np.array_equal(batch.scores(2, arms[0]), parts.scores(2, arms[0]))


def test_threads_change_nothing():
    environment = mcnb.environments.synthetic(**WORLD)
    seen = []
    for threads in (1, 2, 4):
        world = environment(1)
        bandit = mcnb.Bandit("mcnb", features=6, users=20, threads=threads)
        seen.append((walk(bandit, world, ROUNDS), bandit.scores(3, unit_rows(2, 9, 6)).tobytes()))
    assert seen[0] == seen[1] == seen[2]
    results = [mcnb.run(environment, ["mcnb", "random"], 50, 3, threads=n) for n in (1, 4)]
    assert np.array_equal(results[0].regret, results[1].regret)


def test_scores_of_the_program_explain_themselves():
    bandit = mcnb.Bandit("mcnb", features=6, users=5, seed=2)
    scores = bandit.scores(1, unit_rows(3, 4, 6))
    sums = scores["estimate"] + scores["meta"] + scores["user"]
    assert np.array_equal(scores["value"], sums)
    assert json.loads(json.dumps(scores["cluster_size"].tolist())) == [5, 5, 5, 5]
    assert bandit.predict(1, unit_rows(3, 4, 6)) == int(np.argmax(scores["value"]))
