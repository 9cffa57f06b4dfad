"""mcnb.evaluate beside the formulas of every estimator, written in NumPy from the papers."""

import numpy as np
import pytest

import mcnb

K = 4


def world_log(count, seed=1, epsilon=0.4, drops=True):
    """Two kinds of users; the log prefers action kind, and every number of it is known."""
    chance = np.random.default_rng(seed)
    for number in range(count):
        kind = int(chance.integers(2))
        logged = np.full(K, epsilon / K)
        logged[kind] += 1 - epsilon
        chosen = int(chance.choice(K, p=logged))
        earns = 0.1 + 0.6 * ((chosen + 2 * kind) % K) / K
        yield {"context": {"kind": f"k{kind}"},
               "actions": [{"id": f"a{i}", "probability": logged[i]} for i in range(K)],
               "chosen": chosen, "reward": float(chance.random() < earns),
               "dropProbability": 0.5 if drops and number % 7 == 0 else 0.0}


def some_policy(round):
    """Any policy that depends on the context."""
    kind = int(round.context["kind"] == "k1")
    return [0.1, 0.2, 0.3, 0.4] if kind else [0.4, 0.3, 0.2, 0.1]


@pytest.fixture(scope="module")
def log():
    return mcnb.logs.from_rounds(world_log(600))


def features_of(log, dimension):
    """The numbers of all actions, as the evaluation hashes them: with the ids as features."""
    rows = []
    for one in log:
        context = '{"kind":"%s"}' % one.context["kind"]
        rows.append(mcnb._core.hash_features(
            ['{"id":"%s"}' % action.id for action in one.actions], context, dimension))
    return np.array(rows, np.float64)


class Rows:
    """What the estimators see of the log: w, r, q, v and sample weights."""

    def __init__(self, log, dimension, penalty):
        rounds = list(log)
        chosen = np.array([one.chosen for one in rounds])
        own = np.array([some_policy(one) for one in rounds])
        logged = np.array([one.probability for one in rounds])
        at = np.arange(len(rounds))
        self.r = np.array([one.reward for one in rounds])
        self.w = own[at, chosen] / logged
        self.s = 1 / (1 - np.array([one.drop_probability for one in rounds]))
        x = features_of(log, dimension)
        x = np.concatenate([x, np.ones(x.shape[:2] + (1,))], axis=2)
        modelled = np.zeros(own.shape)
        for fold in range(5):  # a ridge regression on the rounds of the other folds
            others = at % 5 != fold
            a = x[at, chosen][others]
            beta = np.linalg.solve(a.T @ a + penalty * np.eye(a.shape[1]), a.T @ self.r[others])
            modelled[~others] = x[~others] @ beta
        modelled = modelled.clip(self.r.min(), self.r.max())
        self.q = modelled[at, chosen]
        self.v = (own * modelled).sum(axis=1)

    def mean(self, terms):
        return (self.s * terms).sum() / self.s.sum()

    def terms(self, estimator, m):
        w, r, q, v = self.w, self.r, self.q, self.v
        limited = {"clipped IPS": np.minimum(w, m), "SWITCH-DR": np.where(w <= m, w, 0.0),
                   "DRos": w if np.isinf(m) else m * w / (w * w + m)}.get(estimator, w)
        if estimator in ("IPS", "clipped IPS", "SNIPS"):
            return limited * r
        return v + (0 if estimator == "DM" else limited * (r - q))

    def value(self, estimator, m):
        value = self.mean(self.terms(estimator, m))
        return value / self.mean(self.w) if estimator == "SNIPS" else value

    def error(self, estimator, m, bias):
        """The root of the estimated variance, by the delta method for the ratio, and the bias."""
        base = self.w if estimator == "SNIPS" else np.ones(len(self.w))
        apart = self.s * (self.terms(estimator, m) - self.value(estimator, m) * base)
        return np.sqrt((apart**2).sum() / (self.s * base).sum()**2 + bias**2)


def test_every_estimator_is_its_formula(log):
    rows = Rows(log, 16, 1.0)
    found = mcnb.evaluate(log, {"mine": some_policy}, dimension=16, replicates=50)
    names = [one["estimator"] for one in found.slots[0]["policies"][0]["estimates"]]
    assert names == ["IPS", "clipped IPS", "SNIPS", "DM", "DR", "SWITCH-DR", "DRos"]
    for name in names:
        one = found.estimate("mine", name)
        m = np.inf if one["parameter"] is None else one["parameter"]
        assert one["value"] == pytest.approx(rows.value(name, m), abs=2e-5), name
        unlimited = "IPS" if name == "clipped IPS" else "DR"
        if name in ("clipped IPS", "DM", "SWITCH-DR", "DRos"):
            assert one["bias"] == pytest.approx(one["value"] - rows.value(unlimited, np.inf),
                                                abs=4e-5)
        assert one["difference"] == pytest.approx(one["value"] - rows.mean(rows.r), abs=4e-5)
        assert one["error"] == pytest.approx(rows.error(name, m, one["bias"]), abs=2e-5), name
    health = found.slots[0]["policies"][0]
    assert health["effectiveSampleSize"] == pytest.approx(rows.w.sum()**2 / (rows.w**2).sum())
    assert health["meanWeight"] == pytest.approx(rows.w.mean())
    assert health["largestWeights"] == pytest.approx(sorted(rows.w)[::-1][:5])


def test_limits_have_the_least_estimated_error(log):
    rows = Rows(log, 16, 1.0)
    found = mcnb.evaluate(log, {"mine": some_policy}, dimension=16, replicates=10)

    def error(name, m):
        terms = rows.terms(name, m)
        value = rows.mean(terms)
        bias = value - rows.mean(rows.terms(name, np.inf))
        return ((rows.s * (terms - value))**2).sum() / rows.s.sum()**2 + bias**2

    for name in ("clipped IPS", "SWITCH-DR", "DRos"):
        m = found.estimate("mine", name)["parameter"]
        chosen = error(name, np.inf if m is None else m)
        tried = [(4.0 if name == "DRos" else 2.0)**i / 8 for i in range(20)] + [np.inf]
        assert chosen == pytest.approx(min(error(name, m) for m in tried), rel=0.02)


def bernstein(terms, width):
    """Maurer and Pontil (2009), on either side."""
    n, l = len(terms), np.log(4 / 0.05)
    half = np.sqrt(2 * terms.var(ddof=1) * l / n) + 7 * width * l / (3 * (n - 1))
    return [max(0.0, terms.mean() - half), min(1.0, terms.mean() + half)]


def running_lower_bound(x, alpha):
    """The mean over fixed bets l of exp(l (sum - bound n) - psi(l) sum (x - prediction)^2) is
    1 / alpha: the predictions are the means so far, cut to [0, 1]."""
    means = np.concatenate([[0.0], np.cumsum(x)[:-1] / np.arange(1, len(x))])
    squares = ((x - means.clip(0, 1))**2).sum()
    k = np.arange(48)
    bets = 0.9 * np.sqrt(0.5)**k
    psi = -np.log1p(-bets) - bets
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        with np.errstate(over="ignore"):
            wealth = (np.exp(bets * (x.sum() - middle * len(x)) - psi * squares)
                      / ((k + 1) * (k + 2))).sum()
        low, high = (middle, high) if wealth > 1 / alpha else (low, middle)
    return low


def test_every_interval_is_its_formula():
    log = mcnb.logs.from_rounds(world_log(900, seed=2, drops=False))
    rows = Rows(log, 16, 1.0)
    found = mcnb.evaluate(log, {"mine": some_policy}, dimension=16, replicates=2000)
    most = max((np.array(some_policy(one)) / one.probabilities).max() for one in log)
    chance = np.random.default_rng(3)
    samples = chance.integers(len(rows.r), size=(2000, len(rows.r)))
    for name in ("IPS", "clipped IPS", "SNIPS", "DM", "DR", "SWITCH-DR", "DRos"):
        one = found.estimate("mine", name)
        m = np.inf if one["parameter"] is None else one["parameter"]
        width = {"IPS": most, "clipped IPS": min(most, m), "DM": 1, "SNIPS": np.nan,
                 "DR": 1 + 2 * most, "SWITCH-DR": 1 + 2 * min(most, m),
                 "DRos": 1 + 2 * min(most, np.sqrt(m) / 2)}[name]
        terms = rows.terms(name, m)
        if name == "SNIPS":
            assert one["bernstein"] is None
            drawn = terms[samples].mean(axis=1) / rows.w[samples].mean(axis=1)
        else:
            assert one["bernstein"] == pytest.approx(bernstein(terms, width), abs=4e-5), name
            drawn = terms[samples].mean(axis=1)
        # Other draws, so the ends scatter by about a twentieth of the width.
        ends = np.quantile(drawn, [0.025, 0.975])
        assert one["bootstrap"] == pytest.approx(ends, abs=0.08 * (ends[1] - ends[0])), name
    anytime = found.estimate("mine", "IPS")["anytime"]
    assert anytime == pytest.approx([running_lower_bound(rows.w * rows.r, 0.025),
                                     1 - running_lower_bound(rows.w * (1 - rows.r), 0.025)])


def test_names_bandits_and_functions_are_policies(log):
    bandit = mcnb.Bandit("linucb", features=16).fit(log)
    found = mcnb.evaluate(
        log, {"random": "random", "bandit": bandit, "mine": some_policy,
              "explored": mcnb.Exploring(bandit, epsilon=0.5)},
        baseline="random", dimension=16, estimators=["ips", "snips"], replicates=50)
    values = {name: found.estimate(name, "snips")["value"]
              for name in ("random", "bandit", "mine", "explored")}
    assert values["bandit"] > values["explored"] > values["random"]
    assert found.estimate("random", "IPS")["difference"] == 0
    random = mcnb.evaluate(log, lambda round: [1 / K] * K, estimators=["ips"], replicates=50)
    assert random.estimate("policy", "IPS")["value"] == pytest.approx(
        found.estimate("random", "IPS")["value"])
    learned = mcnb.evaluate(log, ["replay=linucb", "random"], estimators=["snips"], replicates=10)
    assert learned.learning[0]["method"] == "replay" and 0 < learned.learning[0]["kept"] < 600
    assert learned.learning[0]["anytime"] is None  # rounds of this log stand for unequal numbers
    sound = mcnb.evaluate(mcnb.logs.from_rounds(world_log(600, drops=False)),
                          ["replay=linucb", "progressive=linucb"], estimators=["ips"])
    for one in sound.learning:
        assert one["anytime"][0] < one["value"] < one["anytime"][1]
    assert "replay=linucb" in str(learned) and "effective size" in str(learned)
    pytest.importorskip("pandas")
    assert list(found.to_frame()["policy"].unique()) == ["random", "bandit", "mine", "explored"]


def test_a_bandit_does_not_change_while_it_is_evaluated(log):
    bandit = mcnb.Bandit("mcnb", features=16)
    before = bandit.to_bytes()
    mcnb.evaluate(log, bandit, dimension=16, estimators=["ips"], replicates=10)
    assert bandit.to_bytes() == before


def test_what_is_wrong_is_said(log):
    with pytest.raises(ValueError, match='policy "best": expected random, first'):
        mcnb.evaluate(log, "best")
    with pytest.raises(ValueError, match="policy mine: expected the probabilities of 4 actions"):
        mcnb.evaluate(log, {"mine": lambda round: [0.5, 0.6, 0, 0]})
    with pytest.raises(ZeroDivisionError):
        mcnb.evaluate(log, {"mine": lambda round: 1 / 0})
    with pytest.raises(ValueError, match="takes 3 features, the log has 16"):
        mcnb.evaluate(log, mcnb.Bandit("linucb", features=3), dimension=16)
    with pytest.raises(TypeError, match="policies: expected a name, a Bandit or a function"):
        mcnb.evaluate(log, {"x": 3})
    with pytest.raises(KeyError):
        mcnb.evaluate(log, "random", estimators=["ips"], replicates=2).estimate("random", "DR")
