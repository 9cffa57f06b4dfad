"""mcnb.run and the environments of the engine."""

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
from conftest import SMALL, run_script, samples_file


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


def interrupted(work, seconds):
    """Returns whether a signal during the work ends it."""
    def handler(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        work()
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return False


def test_signals_are_heard_while_data_is_read(many_ratings, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment = mcnb.environments.ratings(file=str(many_ratings), users=50)
    for work in (lambda: environment(1),
                 lambda: mcnb.run(environment, "random", rounds=1, seeds=1)):
        assert interrupted(work, 0.03)
        kept = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert kept == [], "the data was read and prepared to its end all the same"
    assert environment(1).users == 50, "what was stopped can be done again"
    assert any(tmp_path.rglob("*.ratings"))


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
