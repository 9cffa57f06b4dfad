"""The verbs of mcnb.Bandit."""

import copy
import gc
import os
import pickle
import sys
import threading

import numpy as np
import pytest

import mcnb
from conftest import unit_rows


@pytest.fixture
def bandit():
    """Makes a bandit that has played fifty rounds."""
    made = mcnb.Bandit("mcnb", features=6, users=5, seed=1, width=20)
    for i in range(50):
        arms = unit_rows(i, 4, 6)
        arm = made.choose(i % 5, arms)
        made.learn(i % 5, arms[arm], float(arms[arm][0] > 0))
    return made


def test_it_says_what_it_is():
    bandit = mcnb.Bandit("mcnb", features=6, users=5, preset="algorithm", seed=3, gamma=0.25,
                         biases=True)
    assert (bandit.policy, bandit.features, bandit.users, bandit.seed) == ("mcnb", 6, 5, 3)
    assert bandit.options["gamma"] == "0.25" and bandit.options["biases"] == "yes"
    assert bandit.options["meta_steps"] == "1"
    assert repr(bandit) == "Bandit('mcnb', features=6, users=5, seed=3)"
    assert bandit.last_round is None
    assert set(mcnb.policies()) >= {"mcnb", "club", "linucb", "random"}
    assert any(one["name"] == "gamma" for one in mcnb.policies()["mcnb"]["options"])


def test_one_that_could_not_be_made_says_so():
    """Debuggers and test runners print objects after a failure in __init__."""
    try:
        mcnb.Bandit("mcnb", features=6, gamma=-1)
    except ValueError as error:
        frame = error.__traceback__.tb_next.tb_frame
        assert repr(frame.f_locals["self"]) == "<Bandit that was never made>"
    else:
        raise AssertionError("a bandit with gamma=-1")


def test_options_come_in_the_name_by_keyword_or_in_a_dict():
    texts = [mcnb.Bandit("linucb:users=each:alpha=0.5", features=3).options,
             mcnb.Bandit("linucb:users=each", features=3, alpha=0.5).options,
             mcnb.Bandit("linucb", features=3, options={"users": "each", "alpha": 0.5}).options]
    assert texts[0] == texts[1] == texts[2]
    assert texts[0]["users"] == "each"


def test_it_learns_what_users_like():
    bandit = mcnb.Bandit("mcnb", features=4, users=2, seed=1)
    chance = np.random.default_rng(1)
    liked = []
    for i in range(600):
        user, arms = i % 2, unit_rows(chance.integers(2**32), 5, 4)
        arm = bandit.choose(user, arms)
        reward = (1 + arms[arm][user]) / 2  # random choice gets a half
        bandit.learn(user, arms[arm], reward)
        liked.append(reward)
    assert np.mean(liked[-200:]) > 0.65


def test_arrays_of_any_kind_mean_the_same(bandit):
    single = unit_rows(9, 4, 6)
    wide = np.zeros((8, 12), np.float32)
    wide[::2, ::2] = single
    expected = bandit.scores(2, single)
    for form in (single.astype(float), single.tolist(), np.asfortranarray(single), wide[::2, ::2],
                 single[::-1][::-1]):
        assert np.array_equal(bandit.scores(2, form), expected)
    for user in (2, np.int32(2), np.array(2), [2] * 4, np.full(4, 2, np.uint8)):
        assert np.array_equal(bandit.scores(user, single), expected)
    whole = np.array([[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]])
    assert np.array_equal(bandit.scores(0, whole), bandit.scores(0, whole.astype(np.float32)))


def unaligned(array):
    """Returns a copy of the numbers at an address that is off by one byte."""
    memory = np.empty(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


@pytest.mark.parametrize("form", [
    unaligned, lambda a: a.astype(a.dtype.newbyteorder(">")), np.asfortranarray,
    lambda a: np.repeat(a, 2, axis=-1)[..., ::2], lambda a: np.flip(np.flip(a).copy()),
    lambda a: unaligned(a.astype(a.dtype.newbyteorder(">"))),
    lambda a: np.lib.stride_tricks.as_strided(a, a.shape, a.strides, writeable=False),
], ids=["unaligned", "big-endian", "columns", "every other", "backwards", "both", "read-only"])
@pytest.mark.parametrize("wide", [False, True])
def test_numbers_are_the_same_wherever_they_lie(bandit, form, wide):
    real, whole = (np.float64, np.int64) if wide else (np.float32, np.int32)
    arms, batch = unit_rows(9, 4, 6), unit_rows(10, 3, 4, 6)
    users, items = np.array([2, 0, 1, 4]), np.array([7, 8, 9, 7])
    other = bandit.copy()
    expected = bandit.scores(users, arms, items=items)
    assert np.array_equal(bandit.scores(form(users.astype(whole)), form(arms.astype(real)),
                                        items=form(items.astype(whole))), expected)
    assert np.array_equal(bandit.choose(form(users[:3].astype(whole)), form(batch.astype(real))),
                          other.choose(users[:3], batch))
    rewards = np.array([1, 0, 0.5])
    bandit.learn(form(users[:3].astype(whole)), form(arms[:3].astype(real)),
                 form(rewards.astype(real)))
    other.learn(users[:3], arms[:3], rewards)
    own = bandit.parameters(2)
    bandit.set_parameters(3, [form(weights.astype(real)) for weights in own])
    other.set_parameters(3, own)
    assert bandit.to_bytes() == other.to_bytes()


def test_single_precision_arms_are_used_where_they_lie():
    """Features are not copied: arms of 200 megabytes need almost no more memory."""
    import resource

    bandit = mcnb.Bandit("random", features=1_000_000)
    arms = np.ones((50, 1_000_000), np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bandit.choose(0, arms)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < arms.nbytes / 1024 / 4


def test_predict_decides_nothing(bandit):
    arms = unit_rows(1, 4, 6)
    before = bandit.to_bytes()
    assert bandit.predict(1, arms) == bandit.copy().choose(1, arms)
    assert bandit.predict(1, arms, exploit=True) == int(
        np.argmax(bandit.predict_expectations(1, arms)))
    assert bandit.predict([0, 1], [arms, arms]).shape == (2,)
    assert bandit.predict_expectations([0, 1], [arms, arms]).shape == (2, 4)
    assert np.array_equal(bandit.predict_expectations(1, arms), bandit.scores(1, arms)["estimate"])
    assert bandit.to_bytes() == before


def test_fit_begins_anew_and_partial_fit_goes_on(bandit):
    users, arms, rewards = [0, 1, 2], unit_rows(5, 3, 6), [1, 0, 1]
    fresh = mcnb.Bandit("mcnb", features=6, users=5, seed=1, width=20)
    assert fresh.partial_fit(users, arms, rewards) is fresh
    assert bandit.fit(users, arms, rewards) is bandit
    assert bandit.to_bytes() == fresh.to_bytes()
    bandit.partial_fit(users, arms, rewards)
    assert bandit.to_bytes() != fresh.to_bytes()


def test_feedback_may_come_late_or_never():
    arms = unit_rows(1, 4, 6)

    def play(late):
        bandit = mcnb.Bandit("mcnb", features=6, users=3, seed=4)
        for i in range(6):
            bandit.learn(i % 3, arms[i % 4], i % 2)
        first = bandit.choose(0, arms)
        of_first = bandit.last_round
        if not late:
            bandit.learn(0, arms[first], 1)
        bandit.predict(1, arms)
        if late:
            bandit.learn(0, arms[first], 1, round=of_first, index=first)
        bandit.choose(1, arms)  # never rewarded
        return bandit.scores(2, arms)

    assert np.array_equal(play(late=False), play(late=True))


def test_feedback_of_an_old_round_needs_the_arms_place():
    bandit = mcnb.Bandit("linucb", features=6)
    arms = unit_rows(1, 4, 6)
    bandit.choose(0, arms)
    bandit.choose(0, arms)
    with pytest.raises(ValueError, match="index: expected the arm's index in round 0"):
        bandit.learn(0, arms[0], 1, round=0)
    bandit.learn(0, arms[0], 1, round=1)
    bandit.learn(0, arms[0], 1, round=0, index=2)


def test_clusters_are_users(bandit):
    arm = unit_rows(3, 6)
    members = bandit.cluster(2, arm)
    assert members.dtype == np.int64 and 2 in members
    assert len(members) == bandit.scores(2, arm[None, :])["cluster_size"][0]
    assert mcnb.Bandit("random", features=6).cluster(0, arm) is None
    assert len(bandit.cluster([0, 1], [arm, arm])) == 2


def test_sizes_of_clusters_may_be_estimates():
    arms = unit_rows(3, 4, 6)
    for scan, names in (("all", []), ("sampled", ["cluster_found", "cluster_visited"])):
        bandit = mcnb.Bandit("mcnb", features=6, users=30, seed=1, scan=scan,
                             meta_samples=1, meta_steps=2, width=20)
        for user in range(20):
            bandit.learn(user, arms[bandit.choose(user, arms)], 1)
        scores = bandit.scores(2, arms)
        assert [name for name in scores.dtype.names if name.startswith("cluster_f") or
                name.startswith("cluster_v")] == names
        for name in names:
            assert (scores[name] <= 20).all() and (scores[name] >= 1).all()
    with pytest.raises(ValueError, match="option scan: expected all with feedback=cluster"):
        mcnb.Bandit("mcnb", features=6, users=3, feedback="cluster")


def test_parameters_are_the_network_and_can_be_set(bandit):
    first, second = bandit.parameters("meta")
    assert first.shape == (6, 20) and second.shape == (20, 1)
    x = unit_rows(2, 6)
    blank = mcnb.Bandit("mcnb", features=6, users=5, seed=9, width=20)
    blank.set_parameters("meta", bandit.parameters("meta"))
    expected = (np.maximum(x @ first, 0) @ second).item()
    assert blank.predict_expectations(0, x[None, :])[0] == pytest.approx(expected, rel=1e-5)

    own = [weights * 2 for weights in bandit.parameters(3)]
    blank.set_parameters(3, own)
    assert all(np.array_equal(a, b) for a, b in zip(blank.parameters(3), own))
    assert not np.array_equal(blank.parameters(2)[0], own[0])
    assert 3 not in blank.cluster(2, 100 * x)


def test_the_meta_learner_is_looked_at_without_copying(bandit):
    view = bandit.parameters("meta")[0]
    before = view.copy()
    assert not view.flags.writeable and not view.flags.owndata
    for i in range(20):
        arms = unit_rows(100 + i, 4, 6)
        bandit.learn(0, arms[bandit.choose(0, arms)], 1)
        assert np.array_equal(view, bandit.parameters("meta")[0]), f"after {i + 1} steps"
    assert not np.array_equal(view, before), "the view does not follow the learner"
    expected = view.copy()
    bandit.reset()
    del bandit
    gc.collect()
    assert np.array_equal(view, expected), "memory that a view looks at stays"


def test_users_may_come_later_and_be_forgotten(bandit):
    bandit.add_users(3)
    assert bandit.users == 8
    arms = unit_rows(6, 4, 6)
    bandit.learn(7, arms[bandit.choose(7, arms)], 1)
    assert bandit.forget(7) is True
    assert np.array_equal(bandit.parameters(7)[0],
                          mcnb.Bandit("mcnb", features=6, seed=1, width=20).parameters(0)[0])
    assert mcnb.Bandit("random", features=6).forget(0) is False


def test_memory_and_steps_are_counted(bandit):
    assert bandit.memory > 5 * 20 * 7 * 4
    assert bandit.steps["training"] > 0 and bandit.steps["adaptation"] > 0


def test_copies_are_their_own(bandit):
    class Named(mcnb.Bandit):
        pass

    arms = unit_rows(1, 4, 6)
    for make in (copy.copy, copy.deepcopy, mcnb.Bandit.copy):
        other = make(bandit)
        before = bandit.to_bytes()
        assert other.to_bytes() == before
        other.learn(0, arms[0], 1)
        assert bandit.to_bytes() == before
    named = Named("linucb", features=2)
    named.label = "mine"
    assert type(named.copy()) is Named and named.copy().label == "mine"


def test_a_gpu_gives_the_same_answers():
    settings = dict(features=6, users=5, preset="algorithm", width=20)
    try:
        there = mcnb.Bandit("mcnb", device="cuda", **settings)
    except (ValueError, OSError) as error:
        assert "device=cpu" in str(error)  # no GPU here: the remedy
        assert os.environ.get("MCNB_TEST_DEVICE") != "cuda"
        return
    here = mcnb.Bandit("mcnb", **settings)
    arms = unit_rows(1, 30, 4, 6)
    for i, some in enumerate(arms):
        arm = there.choose(i % 5, some)
        assert here.choose(i % 5, some) == arm
        there.learn(i % 5, some[arm], i % 2)
        here.learn(i % 5, some[arm], i % 2)
    assert (there.device, here.device) == ("cuda", "cpu")
    assert there.copy().device == "cuda"
    moved = pickle.loads(pickle.dumps(there))
    assert moved.device == "cpu"
    assert moved.scores(0, arms[0]).tobytes() == here.scores(0, arms[0]).tobytes()


def test_feedback_of_unknown_rounds_changes_nothing():
    bandit = mcnb.Bandit("linucb", features=6, users=3)
    arms = unit_rows(1, 3, 4, 6)
    bandit.choose([0, 1, 2], arms)  # rounds 0, 1 and 2
    before = bandit.to_bytes()
    for rounds in ([0, 7], [7, 0], [0, 0], [1, 2, 0, 1]):
        with pytest.raises(ValueError, match="index: expected the arm's index in round [701],"):
            bandit.learn(0, unit_rows(2, len(rounds), 6), np.ones(len(rounds)), round=rounds)
        assert bandit.to_bytes() == before, f"after rounds {rounds}"
    bandit.learn(0, unit_rows(2, 2, 6), [1, 0], round=[2, 0])
    bandit.learn(1, unit_rows(2, 6), 1)  # belongs to round 1, the only one left
    with pytest.raises(ValueError, match="round 1"):
        bandit.learn(1, unit_rows(2, 6), 1, round=1)


def test_a_reward_that_the_policy_refuses_leaves_its_decision_waiting():
    bandit = mcnb.Bandit("mcnb", features=6, users=3, normalise="none")
    bandit.choose(0, unit_rows(1, 4, 6))
    bandit.set_parameters(0, [layer * 0 + 1e30 for layer in bandit.parameters(0)])
    for _ in range(2):  # both calls find the decision
        with pytest.raises(ValueError, match="finite numbers"):
            bandit.learn(0, np.full(6, 1e30), 1, round=bandit.last_round)


def test_an_empty_batch_of_rounds_leaves_decisions_waiting():
    bandit = mcnb.Bandit("linucb", features=6, users=3)
    arms = unit_rows(1, 4, 6)
    chosen = bandit.choose(0, arms)
    before = bandit.to_bytes()
    assert bandit.choose([], np.zeros((0, 4, 6), np.float32)).shape == (0,)
    assert bandit.to_bytes() == before
    bandit.learn(0, arms[chosen], 1, round=bandit.last_round)


def test_an_empty_batch_is_nothing(bandit):
    before = bandit.to_bytes()
    assert bandit.predict([], np.zeros((0, 4, 6), np.float32)).shape == (0,)
    bandit.learn([], np.zeros((0, 6), np.float32), [])
    assert bandit.to_bytes() == before


def test_damaged_states_are_refused(bandit, tmp_path):
    path = tmp_path / "state"
    bandit.save(path)
    data = path.read_bytes()
    for bad in (data[:100], data[:-1], data[:200] + bytes([data[200] ^ 1]) + data[201:], b"", b"x"):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match="state"):
            mcnb.Bandit.load(path)
    with pytest.raises(OSError, match="nowhere"):
        mcnb.Bandit.load(tmp_path / "nowhere")
    with pytest.raises(OSError):
        bandit.save(tmp_path / "no" / "folder")


def is_seen_at_work(call):
    """Returns whether another thread runs during a call."""
    events = []

    def work():
        events.append("begin")
        call()
        events.append("end")

    # From here on a thread keeps the GIL until it releases it by itself.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        thread = threading.Thread(target=work)
        thread.start()  # waits, without the GIL, until the thread runs
        while not events:
            threading.Event().wait(0.001)
        seen = list(events)
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    return seen == ["begin"]


# The arrays are made before the calls, because NumPy also releases the GIL.
NOBODY, GOOD = np.zeros(3000, np.int64), np.ones(3000, np.float32)
MANY_ARMS, MANY_ROUNDS, LONG_ROUND = (unit_rows(1, 3000, 6), unit_rows(1, 3000, 8, 6),
                                      unit_rows(1, 9000, 6))


@pytest.mark.parametrize("call", [
    lambda b: b.learn(NOBODY, MANY_ARMS, GOOD),
    lambda b: b.scores(NOBODY, MANY_ROUNDS),
    lambda b: b.predict_expectations(NOBODY, MANY_ROUNDS),
    lambda b: b.choose(NOBODY, MANY_ROUNDS),
    lambda b: b.choose(0, LONG_ROUND),
    lambda b: b.cluster(NOBODY, MANY_ARMS),
    lambda b: b.add_users(1_000_000),
    lambda b: mcnb.run("synthetic", "mcnb", rounds=300, seeds=1),
    lambda b: mcnb.environments.synthetic(items=200_000)(1),
], ids=["learn", "scores", "expectations", "choose", "long round", "cluster", "add_users", "run",
        "world"])
def test_other_threads_run_while_it_computes(bandit, call):
    # A busy machine may wake the other thread too late, so the test tries again.
    assert any(is_seen_at_work(lambda: call(bandit)) for _ in range(10))


def test_calls_that_keep_the_gil_would_be_found():
    assert not any(is_seen_at_work(lambda: sum(range(300_000))) for _ in range(10))


def test_signals_are_heard_while_a_batch_is_learned():
    import signal

    bandit = mcnb.Bandit("mcnb", features=6)  # learning would take half a minute
    arms = unit_rows(1, 300_000, 6)
    calls = []

    def handler(number, frame):
        calls.append(bandit.predict(0, arms[:2]))  # bandits may be used in handlers, too
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            bandit.learn(0, arms, np.ones(len(arms)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(calls) == 1


def test_threads_that_share_a_bandit_wait_for_each_other():
    bandit = mcnb.Bandit("mcnb", features=6, users=4, threads=2)
    arms = unit_rows(1, 5, 6)
    failures = []

    def work(user):
        try:
            for _ in range(100):
                bandit.learn(user, arms[bandit.choose(user, arms)], 1)
                bandit.parameters(user)
        except Exception as failure:  # pragma: no cover
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(user,)) for user in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert bandit.last_round >= 399


def test_what_was_never_made_says_so():
    ghost = mcnb.Bandit.__new__(mcnb.Bandit)
    for look in (lambda: ghost.users, lambda: ghost.memory, lambda: ghost.choose(0, [[1.0]])):
        with pytest.raises(ValueError, match="__init__"):
            look()


def test_fit_that_is_refused_changes_nothing(bandit):
    arms = unit_rows(1, 4, 6)
    bandit.learn(0, arms[bandit.choose(0, arms)], 1)
    before = bandit.to_bytes()
    with pytest.raises(ValueError, match="arm"):
        bandit.fit([0], np.ones((1, 5)), [1.0])
    assert bandit.to_bytes() == before


def test_a_deep_copy_shares_nothing():
    class Noted(mcnb.Bandit):
        pass

    first = Noted("linucb", features=3)
    first.notes = []
    second = copy.deepcopy(first)
    second.notes.append("x")
    assert first.notes == []
