"""Studies: paired seeds, the same results however they are spread, certificates that are what they claim."""

import dataclasses

import numpy as np
import pytest

from capeval_pipeline.executors import open_executor
from capeval_pipeline.methods.identification import intervals, plain
from capeval_pipeline.methods.identification.policies import PLAIN_POLICIES, POLICIES
from capeval_pipeline.methods.identification.records import Draws, ReplaySettings, make_draws
from capeval_pipeline.methods.identification.replay import replay_policy
from capeval_pipeline.methods.identification.results import curve_points, interval_points, summarise
from capeval_pipeline.methods.identification.study import StudyWorld, fit_predictor, run_study
from capeval_pipeline.methods.synthetic.low_rank_world import make_low_rank_world
from tests.methods.identification.worlds import small_world


@pytest.fixture(scope="module")
def world() -> StudyWorld:
    rng = np.random.default_rng(1)
    scores = make_low_rank_world(n_items=80, n_models=46, rank=2, rng=rng).scores.T
    predictor, _ = fit_predictor(scores[:30], np.arange(30), rng=rng)
    settings = ReplaySettings(batch=5, pull_budgets=np.array([80, 160, 320, 640, 960]))
    return StudyWorld(scores[30:], settings, n_arms=12, predictor=predictor, seed=3)


def without_seconds(runs):
    return [
        [
            dataclasses.astuple(
                dataclasses.replace(run, seconds=0.0, step_error_sum=float(np.nan_to_num(run.step_error_sum)))
            )
            for run in own.runs
        ]
        for own in runs.values()
    ]


def assert_same(first, second):
    for own, other in zip(without_seconds(first), without_seconds(second), strict=True):
        for run, other_run in zip(own, other, strict=True):
            for value, other_value in zip(run, other_run, strict=True):
                np.testing.assert_array_equal(value, other_value)


def test_threads_processes_and_no_executor_give_the_same_to_the_last_bit(world):
    alone = run_study(world, PLAIN_POLICIES, 6)
    for spec, n_workers in (("threads", 2), ("processes", 2)):
        with open_executor(spec, n_workers) as pool:
            assert_same(alone, run_study(world, PLAIN_POLICIES, 6, pool, n_chunks=3))


def test_runs_do_not_depend_on_which_others_are_made(world):
    few, many = run_study(world, ["pulse"], 3), run_study(world, ["ucb_e", "pulse"], 5)
    assert_same({"pulse": few["pulse"]}, {"pulse": dataclasses.replace(many["pulse"], runs=many["pulse"].runs[:3])})


def test_policies_share_arms_and_gaps_by_seed(world):
    runs = run_study(world, ["uniform", "race"], 4)
    for one, other in zip(runs["uniform"].runs, runs["race"].runs, strict=True):
        assert (one.n_arms, one.best_gap) == (other.n_arms, other.best_gap)
    assert len({run.best_gap for run in runs["uniform"].runs}) > 1


def test_every_cell_read_names_a_best_model(world):
    runs = run_study(world, list(POLICIES), 6)
    for name, own in runs.items():
        if name != "successive_rejects_shared":
            assert own.hits[:, -1].all(), name
    assert all(run.pulls_to_certificate > 0 for run in runs["pulse"].runs)
    assert not any(run.is_certificate_wrong for own in runs.values() for run in own.runs)


def test_certificates_come_no_later_than_the_last_pull_and_not_before_every_arm_was_asked(world):
    for run in run_study(world, ["uniform", "pulse"], 6)["uniform"].runs:
        assert 12 * 5 <= run.pulls_to_certificate <= 960


def test_summaries_say_what_a_policy_has_and_leave_out_what_it_has_not(world):
    runs = run_study(world, list(POLICIES), 8)
    by_name = {summary.policy: summary for summary in summarise(runs, world)}
    assert by_name["pulse"].interval == "betting"
    assert 0 < by_name["pulse"].mean_interval_width < 1
    assert 0 <= by_name["pulse"].coverage_lower <= by_name["pulse"].coverage_simultaneous <= 1
    assert not np.isnan(by_name["pulse"].bias_z)
    assert np.isnan(by_name["ucb_e"].bias_z)
    assert np.isnan(by_name["ucb_e"].saving.value)
    assert np.isnan(by_name["successive_rejects_shared"].coverage_simultaneous)
    assert by_name["race"].n_certified == 8
    points = curve_points(runs["pulse"], world)
    assert [point.pull_budget for point in points] == [80, 160, 320, 640, 960]
    assert 1 - np.mean([point.accuracy for point in points]) == pytest.approx(by_name["pulse"].mean_error)


def test_betting_is_the_narrowest_interval(world):
    widths = {
        point.interval: point.mean_width
        for point in interval_points(run_study(world, ["pulse"], 8)["pulse"], world)
        if point.n_answers == 50
    }
    assert widths["betting"] < widths["empirical_bernstein"]
    assert widths["betting"] < widths["freedman_plugin"]


def test_active_draws_have_no_oracle_interval(world):
    kinds = {point.interval for point in interval_points(run_study(world, ["pulse_active"], 2)["pulse_active"], world)}
    assert kinds == {"betting", "empirical_bernstein", "freedman_plugin"}


def test_unknown_policies_are_refused_by_name(world):
    with pytest.raises(KeyError, match="pulsar"):
        run_study(world, ["pulsar"], 1)


def test_policies_without_their_predictor_are_refused(world):
    bare = dataclasses.replace(world, predictor=None)
    with pytest.raises(ValueError, match="needs item factors"):
        run_study(bare, ["pulse"], 1)


@pytest.mark.parametrize("shape", [(2, 1), (2, 2), (5, 3)])
def test_tiny_benchmarks_have_a_study_too(shape):
    scores = np.random.default_rng(0).integers(0, 2, shape).astype(float)
    settings = ReplaySettings(batch=5, pull_budgets=np.array([scores.size]))
    bare = StudyWorld(scores, settings, n_arms=5)
    runs = run_study(bare, ["uniform", "ucb_e", "successive_rejects_shared", "race"], 3)
    assert runs["uniform"].hits.all()
    assert len(summarise(runs, bare)) == 4


def first_certificate_by_brute_force(scores, trace_arms, trace, delta):
    """(pulls, leader) from the plain intervals of every arm after every pull; (-1, -1) when never."""
    n_arms, n = scores.shape
    alpha, steps = delta / n_arms, [[] for _ in range(n_arms)]
    limits = [(0.0, 1.0)] * n_arms
    tied = scores.mean(axis=1) >= scores.mean(axis=1).max() - 1e-12
    for pulls, (arm, row) in enumerate(zip(trace_arms, trace, strict=True), start=1):
        residual = row[0] - row[2] * row[1]
        steps[arm].append(plain.Step(score=row[0], control_weight=row[2], known=row[3], residual=residual))
        lower, upper = plain.betting_interval(steps[arm], n, alpha)
        limits[arm] = (max(limits[arm][0], lower), min(limits[arm][1], upper))
        is_read = [len(own) == n for own in steps]
        for leader in range(n_arms):
            if steps[leader] and all(
                limits[other][1] < limits[leader][0] - 1e-12
                or (tied[leader] and tied[other] and is_read[leader] and is_read[other])
                for other in range(n_arms)
                if other != leader
            ):
                return pulls, leader
    return -1, -1


@pytest.mark.parametrize("name", ["uniform", "pulse"])
@pytest.mark.parametrize("seed", range(12))
def test_certificates_come_when_the_plain_intervals_separate(name, seed):
    # delta near 1 is no interval worth having, but it makes early and wrong certificates, which must be found too.
    scores, predictor, _, settings = small_world(seed, n_items=24)
    loose = dataclasses.replace(settings, delta=0.9)
    world = StudyWorld(scores, loose, n_arms=6, predictor=predictor, seed=seed)
    run = run_study(world, [name], 1)[name].runs[0]
    rng = np.random.default_rng([seed, 0])
    replay = replay_policy(POLICIES[name], scores, make_draws(rng, *scores.shape), loose, predictor)
    pulls, leader = first_certificate_by_brute_force(scores, replay.trace_arms, replay.trace, 0.9)
    assert run.pulls_to_certificate == pulls
    means = scores.mean(axis=1)
    assert run.is_certificate_wrong == (leader >= 0 and means[leader] < means.max() - 1e-12)


def test_a_certificate_that_luck_made_is_still_there_when_everything_has_been_read():
    # The second best answers all its right ones first, the best all its wrong ones: the bets are fooled early on.
    n = 40
    scores = np.array([np.r_[np.ones(20), np.zeros(20)], np.r_[np.zeros(18), np.ones(22)]])
    in_order = np.tile(np.arange(n, dtype=np.int32), (2, 1))
    settings = ReplaySettings(batch=1, pull_budgets=np.array([2 * n]))
    replay = replay_policy(POLICIES["uniform"], scores, Draws(in_order, in_order[0], np.zeros((2, n))), settings)
    starts, places = intervals.group_by_arm(replay.trace_arms, 2)
    trace, alpha = replay.trace[places], 0.1
    bets = intervals.grouped_bets(trace, starts, n, alpha)
    is_best, order = np.array([False, True]), np.array([1, 0])
    wrong, right = (
        intervals.certificate_time(trace, bets, starts, places, n, alpha, leader, is_best, order) for leader in (0, 1)
    )
    # The truth comes out only when the answers leave nothing else possible, and the first certificate is what counts.
    assert 2 < wrong < 40 < right
