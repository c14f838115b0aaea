"""The live form of each policy makes the pulls of the study's replay, whatever the order in which answers arrive."""

import numpy as np
import pytest

from capeval_pipeline.methods.identification import intervals
from capeval_pipeline.methods.identification.allocation import Allocation, AllocationSettings, make_allocation
from capeval_pipeline.methods.identification.estimator import N_TRACE_COLUMNS, T_TRUE_VARIANCE
from capeval_pipeline.methods.identification.policies import POLICIES
from capeval_pipeline.methods.identification.records import ReplaySettings, make_draws
from capeval_pipeline.methods.identification.replay import replay_policy
from tests.methods.identification.worlds import small_world

INDEX_POLICIES = [name for name, policy in POLICIES.items() if policy.kind == "index"]
KNOWN_TO_A_SESSION = [column for column in range(N_TRACE_COLUMNS) if column != T_TRUE_VARIANCE]


def live(name: str, world, *, delta: float = 0.1, pull_budget: int | None = None) -> Allocation:
    _, predictor, draws, replay = world
    settings = AllocationSettings(batch=replay.batch, delta=delta, pull_budget=pull_budget)
    return make_allocation(POLICIES[name], draws, settings, predictor)


def answer(allocation: Allocation, scores: np.ndarray, arm: int, items: np.ndarray) -> None:
    arms = np.full(items.size, arm)
    allocation.update(arms, items, scores[arms, items])


def play(allocation: Allocation, scores: np.ndarray, n_pulls: int) -> list[tuple[int, int]]:
    """Decide, answer, decide … until `n_pulls` are used up; every (arm, item) pulled."""
    pulls: list[tuple[int, int]] = []
    while (batch := allocation.select(n_pulls - len(pulls))) is not None:
        answer(allocation, scores, batch.arm, batch.items)
        pulls += [(batch.arm, int(item)) for item in batch.items]
    return pulls


@pytest.mark.parametrize("name", INDEX_POLICIES)
@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_an_index_policy_makes_the_pulls_of_its_replay_to_the_last_bit(name, seed):
    world = small_world(seed)
    scores, predictor, draws, settings = world
    replay = replay_policy(POLICIES[name], scores, draws, settings, predictor)
    allocation = live(name, world)
    pulls = play(allocation, scores, int(settings.pull_budgets[-1]))
    assert [arm for arm, _ in pulls] == replay.trace_arms.tolist()
    assert [scores[pull] for pull in pulls] == replay.trace[:, 0].tolist()
    for arm in range(scores.shape[0]):
        own = replay.trace[replay.trace_arms == arm]
        ours = allocation._traces[arm][: allocation.counts[arm]]
        assert (ours[:, KNOWN_TO_A_SESSION] == own[:, KNOWN_TO_A_SESSION]).all()
    assert allocation.leader == replay.recommended[-1]


def active_world(seed: int):
    """Big enough for the active rule to leave uniform drawing: two easy halves of items and one hard."""
    rng = np.random.default_rng([11, seed])
    _, predictor, _, _ = small_world(5)
    factors = np.repeat([[6.0], [-6.0], [0.0]], 40, axis=0)
    predictor = type(predictor)(factors, np.array([1.0]), 1.0, predictor.held_out_moments)
    scores = (rng.random((5, 120)) < 1 / (1 + np.exp(-factors[:, 0]))).astype(float)
    settings = ReplaySettings(batch=7, pull_budgets=np.array([500, 560]))
    return scores, predictor, make_draws(rng, 5, 120), settings


def test_active_draws_decided_ahead_are_those_of_the_replay():
    world = active_world(0)
    scores, predictor, draws, settings = world
    replay = replay_policy(POLICIES["pulse_active"], scores, draws, settings, predictor)
    allocation = live("pulse_active", world)
    pulls = play(allocation, scores, 560)
    assert [arm for arm, _ in pulls] == replay.trace_arms.tolist()
    assert (replay.trace[:, 5] < 1.0).any(), "the world is too easy to test active draws"
    for arm in range(5):
        own, ours = replay.trace[replay.trace_arms == arm], allocation._traces[arm][: allocation.counts[arm]]
        assert (ours[:, KNOWN_TO_A_SESSION[:7]] == own[:, KNOWN_TO_A_SESSION[:7]]).all()


@pytest.mark.parametrize("seed", range(24))
def test_the_race_makes_the_pulls_and_the_certificate_of_its_replay(seed):
    world = small_world(seed)
    scores, predictor, draws, settings = world
    if scores.shape[0] == 1:
        return  # nobody to race against
    total = int(settings.pull_budgets[-1])
    replay = replay_policy(POLICIES["race"], scores, draws, settings, predictor)
    allocation = live("race", world)
    pulls = play(allocation, scores, total)
    assert len(pulls) == replay.n_pulls
    assert allocation.is_certified == (replay.pulls_to_certificate >= 0)
    if allocation.is_certified:
        assert allocation.candidates.tolist() == replay.certified_arms.tolist()
        assert allocation.leader == replay.recommended[-1]


@pytest.mark.parametrize("seed", range(24))
def test_successive_rejects_keeps_the_arm_of_its_replay(seed):
    world = small_world(seed)
    scores, _, draws, settings = world
    if scores.shape[0] == 1:
        return  # nothing to reject
    for budget in settings.pull_budgets[settings.pull_budgets >= scores.shape[0]].tolist():
        replay = replay_policy(
            POLICIES["successive_rejects_shared"], scores, draws, ReplaySettings(1, np.array([budget]))
        )
        allocation = live("successive_rejects_shared", world, pull_budget=budget)
        pulls = play(allocation, scores, budget)
        assert allocation.is_finished
        assert len(pulls) <= budget
        assert allocation.leader == replay.recommended[0]


@pytest.mark.parametrize("name", POLICIES)
def test_answers_may_come_in_any_order_and_count_as_drawn(name, rng):
    world = small_world(5)
    scores, *_ = world
    straight, shuffled = (live(name, world, pull_budget=120) for _ in range(2))
    for _ in range(25):
        batch = straight.select(10**6)
        if batch is None:
            break
        answer(straight, scores, batch.arm, batch.items)
        other = shuffled.select(10**6)
        assert (other.arm, other.items.tolist()) == (batch.arm, batch.items.tolist())
        for item in rng.permutation(batch.items):
            answer(shuffled, scores, batch.arm, np.array([item]))
    assert (straight.estimates == shuffled.estimates)[straight.counts > 0].all()
    assert (straight.limits() == shuffled.limits()).all()


def test_an_answer_waits_for_those_drawn_before_it():
    scores, *_ = small_world(5)
    draws = make_draws(np.random.default_rng(1), *scores.shape)
    allocation = make_allocation(POLICIES["ucb_e"], draws, AllocationSettings(batch=3))
    batch = allocation.select(10)
    answer(allocation, scores, batch.arm, batch.items[1:])
    assert allocation.counts[batch.arm] == 0
    assert np.isnan(allocation.estimates[batch.arm])
    answer(allocation, scores, batch.arm, batch.items[:1])
    assert allocation.counts[batch.arm] == batch.items.size
    assert allocation.estimates[batch.arm] == scores[batch.arm, batch.items].mean()


def test_with_answers_pending_the_next_arms_get_their_batches_and_then_nothing():
    world = small_world(5)
    scores = world[0]
    for name in POLICIES:
        allocation = live(name, world, pull_budget=100)
        arms = [allocation.select(10**6).arm for _ in range(scores.shape[0])]
        assert arms == list(range(scores.shape[0]))
        assert allocation.select(10**6) is None
        assert not allocation.is_finished


@pytest.mark.parametrize("name", ["ucb_e", "pulse", "pulse_shared_order", "uniform"])
def test_the_certificate_comes_at_the_pull_of_the_study(name):
    """Answer by answer: limits of a session certify at the count that the study finds by bisection over its trace."""
    n_certified = 0
    for seed in range(6):
        rng = np.random.default_rng([3, seed])
        scores = (rng.random((3, 60)) < np.array([[0.9], [0.35], [0.2]])).astype(float)
        predictor = small_world(5, 60)[1]
        draws = make_draws(rng, 3, 60)
        settings = ReplaySettings(batch=4, pull_budgets=np.array([180]))
        world = scores, predictor, draws, settings
        replay = replay_policy(POLICIES[name], scores, draws, settings, predictor)
        starts, places = intervals.group_by_arm(replay.trace_arms, 3)
        trace = replay.trace[places]
        bets = intervals.grouped_bets(trace, starts, 60, 0.1 / 3)
        best = int(scores.mean(axis=1).argmax())
        is_best = scores.mean(axis=1) == scores.mean(axis=1).max()
        others = np.argsort(-scores.mean(axis=1))
        moment = intervals.certificate_time(trace, bets, starts, places, 60, 0.1 / 3, best, is_best, others)
        allocation, n_pulls = live(name, world), 0
        while not allocation.is_certified and (batch := allocation.select(10**6)) is not None:
            for item in batch.items:
                answer(allocation, scores, batch.arm, np.array([item]))
                n_pulls += 1
                if allocation.is_certified:
                    break
        assert (allocation.is_certified, n_pulls) == (moment > 0, moment if moment > 0 else n_pulls)
        n_certified += moment > 0
    assert n_certified >= 5


def test_equal_arms_are_certified_together_once_read_to_the_end():
    scores = np.array([[1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
    draws = make_draws(np.random.default_rng(0), 3, 4)
    for name in ("ucb_e", "race"):
        allocation = make_allocation(POLICIES[name], draws, AllocationSettings(batch=2, delta=0.05))
        play(allocation, scores, 12)
        assert allocation.is_certified
        assert allocation.candidates.tolist() == [0, 1]


def test_wrong_answers_and_missing_means_are_refused():
    world = small_world(5)
    allocation = live("ucb_e", world)
    batch = allocation.select(5)
    with pytest.raises(ValueError, match="lie in"):
        allocation.update(np.array([0]), batch.items[:1], np.array([1.5]))
    allocation.update(np.array([0]), batch.items[:1], np.array([0.5]))
    with pytest.raises(ValueError, match="there already"):
        allocation.update(np.array([0]), batch.items[:1], np.array([0.5]))
    with pytest.raises(ValueError, match="pull budget"):
        live("successive_rejects_shared", world)
    with pytest.raises(ValueError, match="item factors"):
        make_allocation(POLICIES["pulse"], world[2], AllocationSettings(batch=2))
