"""What a session hands out, what counts, what it says, and when it stops."""

import json
import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from capeval_pipeline.errors import CapevalError, UsageError
from capeval_pipeline.methods.identification import intervals
from capeval_pipeline.methods.identification.policies import POLICIES
from capeval_pipeline.methods.identification.records import Predictor, ReplaySettings, make_draws
from capeval_pipeline.methods.identification.replay import replay_policy
from capeval_pipeline.sessions import Session, SessionChoices
from capeval_pipeline.sessions.setup import NOT_LIVE, setup_of
from tests.sessions.worlds import World

LIVE = [name for name in POLICIES if name not in NOT_LIVE]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def all_told(world: World, name: str, data: Path, **choices) -> Session:
    session = world.session(data, name, policy="uniform", **choices)
    world.play(session)
    return session


@pytest.mark.parametrize("policy", LIVE)
def test_a_session_makes_the_pulls_of_the_study_with_the_same_seed(world, tmp_path, policy):
    n_cells, budget = world.scores.size, 150
    session = world.session(tmp_path, policy=policy, seed=7, pull_budget=budget, delta=1e-6)
    pulls = world.play(session)
    predictor = session._folder.read_predictor(session.config)
    assert isinstance(predictor, Predictor) == (POLICIES[policy].needs_predictor or policy == "race")
    draws = make_draws(np.random.default_rng([7, 0]), *world.scores.shape)  # run 0 of a study with seed 7
    settings = ReplaySettings(batch=session.config.batch, pull_budgets=np.array([budget]), delta=1e-6)
    replay = replay_policy(POLICIES[policy], world.scores, draws, settings, predictor)
    status = session.status()
    assert status.n_told == len(pulls) <= budget < n_cells
    if POLICIES[policy].kind == "index":
        assert [world.arms.index(model) for model, _ in pulls] == replay.trace_arms.tolist()
        assert [world.score(*pull) for pull in pulls] == replay.trace[:, 0].tolist()
    if POLICIES[policy].kind == "successive_rejects" or len(status.best) == 0:
        assert session._shown().leader == replay.recommended[-1]
    else:
        assert status.best == (world.arms[replay.recommended[-1]],)


def test_the_certificate_is_that_of_the_study(world, tmp_path):
    """Told one by one, a session is certified at the pull at which the study's bisection finds the certificate."""
    wide = World(3, 120, seed=3)
    wide.scores[1:] = (np.random.default_rng(0).random((2, 120)) < 0.3).astype(float)
    for policy in ("pulse", "ucb_e"):
        session = wide.session(tmp_path, policy, policy=policy, delta=0.1)
        draws = make_draws(np.random.default_rng([0, 0]), 3, 120)
        settings = ReplaySettings(batch=session.config.batch, pull_budgets=np.array([360]))
        predictor = session._folder.read_predictor(session.config)
        replay = replay_policy(POLICIES[policy], wide.scores, draws, settings, predictor)
        starts, places = intervals.group_by_arm(replay.trace_arms, 3)
        trace = replay.trace[places]
        bets = intervals.grouped_bets(trace, starts, 120, 0.1 / 3)
        is_best = np.array([True, False, False])
        moment = intervals.certificate_time(trace, bets, starts, places, 120, 0.1 / 3, 0, is_best, np.arange(3))
        n_told = 0
        while not session.status().certified:
            for answer in wide.answers(session.ask()):
                session.tell([answer])
                n_told += 1
                if session.status().certified:
                    break
        assert n_told == moment
        status = session.status()
        assert (status.best, status.candidates, status.stop, status.reason) == (
            ("arm0",), ("arm0",), True, "certified",
        )  # fmt: skip
        assert session.ask().as_json()["reason"] == "certified"


def test_a_race_is_certified_as_in_the_study(world, tmp_path):
    session = world.session(tmp_path, policy="race", delta=0.1)
    pulls = world.play(session)
    draws = make_draws(np.random.default_rng([0, 0]), *world.scores.shape)
    settings = ReplaySettings(batch=session.config.batch, pull_budgets=np.array([world.scores.size]))
    predictor = session._folder.read_predictor(session.config)
    replay = replay_policy(POLICIES["race"], world.scores, draws, settings, predictor)
    status = session.status()
    assert status.certified and len(pulls) == replay.pulls_to_certificate
    assert status.best == tuple(world.arms[arm] for arm in replay.certified_arms)


def test_answers_count_in_drawn_order(world, tmp_path, shared):
    cases = json.loads((shared / "cases" / "pulse_small.json").read_text())["cases"]
    case = next(case for case in cases if case["name"] == "answers_count_in_drawn_order")
    six = World(2, case["n_items"])
    session = six.session(tmp_path, policy="ucb_e", batch=3)
    asks = session.ask(3).asks
    place = {drawn: asks[number].ask_id for number, drawn in enumerate(case["drawn"])}

    def say(told: list[dict]) -> dict[str, float]:
        session.tell([{"ask_id": place[one["item"]], "score": one["score"]} for one in told])
        status = session.status()
        arm = next(arm for arm in status.arms if arm.model_id == asks[0].model_id)
        return {"n_answers_counted": arm.n_answers, "estimate": arm.estimate, "n_waiting": status.n_waiting}

    assert say(case["told"]) == case["expect"]
    assert say(case["then_told"]) == pytest.approx(case["expect_then"], abs=1e-12)


def test_in_a_race_only_items_count_that_all_survivors_have(world, tmp_path):
    session = world.session(tmp_path, policy="race", batch=5)
    asks = session.ask(20).asks
    assert [ask.item_id for ask in asks[:5]] == [ask.item_id for ask in asks[5:10]]
    told = [ask for ask in asks if ask.model_id != "arm3"]
    session.tell([{"ask_id": ask.ask_id, "score": 1} for ask in told])
    assert {arm.n_answers for arm in session.status().arms} == {0}
    assert session.status().n_waiting == 15
    last = [ask for ask in asks if ask.model_id == "arm3"]
    session.tell([{"ask_id": ask.ask_id, "score": 1} for ask in last[1:]])
    assert session.status().n_waiting == 19
    session.tell([{"ask_id": last[0].ask_id, "score": 1}])
    assert {arm.n_answers for arm in session.status().arms} == {5}


def test_with_answers_pending_the_next_arms_are_asked_and_then_one_must_tell(world, tmp_path):
    session = world.session(tmp_path, policy="pulse", batch=6)
    first = session.ask()
    assert [ask.ask_id for ask in first.asks] == [f"a{number:06d}" for number in range(1, 7)]
    assert first.asks[0].prompt == f"prompt of {first.asks[0].item_id}"
    assert (len(session.ask(4).asks), len(session.ask(100).asks)) == (4, 14)
    nothing = session.ask(100)
    assert (nothing.asks, nothing.stop, nothing.reason, nothing.n_pending) == ((), False, None, 24)
    again = session.ask(reissue=True)
    assert [ask.ask_id for ask in again.asks] == [f"a{number:06d}" for number in range(1, 25)]
    assert len(session.ask(5, reissue=True).asks) == 5
    assert session.status().n_pending == 24


@pytest.mark.parametrize("policy", ["pulse", "race", "pulse_active"])
def test_how_many_are_handed_out_at_a_time_changes_nothing_within_a_batch(world, tmp_path, policy):
    whole, split = (world.session(tmp_path, name, policy=policy, batch=6) for name in ("whole", "split"))
    assert world.play(whole, 96) == world.play(split, 96, max_asks=3)
    ours, theirs = whole.status(), split.status()
    assert ours.arms == theirs.arms


@pytest.mark.parametrize("policy", LIVE)
def test_another_process_sees_the_same_state_to_the_last_bit(world, tmp_path, policy):
    session = world.session(tmp_path, policy=policy, pull_budget=170, delta=1e-6)
    rng = np.random.default_rng(1)
    waiting: list[dict] = []
    for _ in range(12):
        waiting += world.answers(session.ask(int(rng.integers(1, 20))))
        rng.shuffle(waiting)
        told, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
        for answer in told:
            session.tell([answer])
    read_anew = Session.open(tmp_path, "s")
    assert read_anew.status() == session.status()
    one, other = read_anew.ask(7).asks, session.ask(7).asks  # each goes on from what the other handed out
    assert not {ask.ask_id for ask in one} & {ask.ask_id for ask in other}
    assert read_anew.status() == session.status()


def test_a_pull_budget_is_never_exceeded_and_ends_the_session(world, tmp_path):
    session = world.session(tmp_path, policy="ucb_e", batch=6, pull_budget=20, delta=1e-6)
    reply = session.ask(100)
    assert len(reply.asks) == 20
    assert session.ask().asks == () and not session.ask().stop
    session.tell(world.answers(reply))
    end = session.ask()
    assert (end.asks, end.stop, end.reason) == ((), True, "pull_budget")
    assert "the budget of calls is spent" in session.status().sentence


def test_a_cost_budget_is_kept_with_the_costs_that_are_told(world, tmp_path):
    prices = dict.fromkeys(world.arms, 1.0)
    session = world.session(tmp_path, policy="uniform", batch=5, cost_budget=20.0, prices=prices, delta=1e-6)
    reply = session.ask(100)
    assert len(reply.asks) == 20  # all at the given price
    session.tell(world.answers(reply, cost_usd=0.25))
    assert session.status().spent_usd == pytest.approx(5.0)
    further = session.ask(100)
    assert len(further.asks) == 20  # four arms, one batch each; 60 would be affordable at 0.25
    session.tell(world.answers(further, cost_usd=0.6))
    # 5 + 12 spent; a call costs (5 x .25 + 5 x .6) / 10 = .425 by now: seven more
    last = session.ask(100)
    assert len(last.asks) == 7
    session.tell(world.answers(last, cost_usd=0.425))
    end = session.ask()
    assert (end.stop, end.reason) == (True, "cost_budget")
    assert session.status().spent_usd <= 20.0
    with pytest.raises(UsageError, match="needs a price for every arm"):
        world.setup(cost_budget=5.0, prices={"arm0": 1.0})


def test_costs_that_nobody_told_are_unknown_and_not_nothing(world, tmp_path):
    session = world.session(tmp_path, policy="uniform")
    session.tell(world.answers(session.ask()))
    assert math.isnan(session.status().spent_usd)
    assert session.status().as_json()["spent_usd"] is None
    assert "$" not in session.status().sentence


def test_a_call_that_fails_is_handed_out_three_more_times_and_then_counts_as_the_worst(world, tmp_path):
    session = world.session(tmp_path, policy="ucb_e", batch=3)
    asks = session.ask().asks
    session.tell([{"ask_id": ask.ask_id, "score": 1} for ask in asks[1:]])
    cell, ask_id, seen = (asks[0].model_id, asks[0].item_id), asks[0].ask_id, set()
    for attempt in range(1, 5):
        seen.add(ask_id)
        line = {"ask_id": ask_id, "score": None, "status": "error", "cost_usd": 0.5}
        assert session.tell([line]).accepted == 1
        assert session.tell([line]).already_recorded == 1
        if attempt < 4:
            assert session.status().n_waiting == 2
            again = session.ask(1).asks[0]
            assert (again.model_id, again.item_id) == cell
            ask_id = again.ask_id
    assert len(seen) == 4
    status = session.status()
    arm = next(arm for arm in status.arms if arm.model_id == cell[0])
    assert (arm.n_answers, arm.estimate, status.n_waiting) == (3, 2 / 3, 0)


def test_scores_of_another_range_are_rescaled_and_turned_round(world, tmp_path):
    source = replace(world.source, score_low=-10.0, score_high=90.0, higher_is_better=False)
    session = Session.start(tmp_path, setup_of(source, "s", SessionChoices(world.arms, policy="ucb_e", batch=2)))
    asks = session.ask().asks
    refused = session.tell([{"ask_id": asks[0].ask_id, "score": 90.5}]).rejected[0]
    assert refused.code == "out_of_range" and "-10 to 90" in refused.message
    session.tell([{"ask_id": asks[0].ask_id, "score": 90}, {"ask_id": asks[1].ask_id, "score": 15}])
    arm = next(arm for arm in session.status().arms if arm.n_answers)
    assert arm.estimate == pytest.approx((0.0 + 0.75) / 2)


def test_equal_arms_are_best_together_once_asked_everything(world, tmp_path):
    same = World(3, 12)
    same.scores[1] = same.scores[0]
    same.scores[2] = 0.0
    same.scores[0, 0] = same.scores[1, 0] = 1.0
    for policy in ("race", "uniform"):
        session = same.session(tmp_path, policy, policy=policy)
        same.play(session)
        status = session.status()
        assert (status.certified, status.best, status.reason) == (True, ("arm0", "arm1"), "certified")
        assert "arm0 and arm1 are equally good" in status.sentence


def test_the_sentence_is_that_of_the_document(world, tmp_path):
    session = world.session(tmp_path, policy="uniform", batch=10, delta=0.05)
    assert session.status().sentence == "After 0 of 240 calls (0 %): no answer counts yet."
    session.tell(world.answers(session.ask(40), cost_usd=0.315))
    status = session.status()
    best = max(status.arms, key=lambda arm: arm.estimate)
    low, high = (f"{value:.2f}".removeprefix("0") for value in (best.lower, best.upper))
    assert status.sentence == (
        f"After 40 of 240 calls (17 %, $12.60): {best.model_id} leads at {best.estimate:.2f} ({low} to {high}); "
        "arm0, arm1, arm2 and arm3 cannot be told apart yet."
    ).replace("at 0.", "at .")


def test_two_processes_that_ask_at_once_never_get_the_same_call(world, tmp_path):
    world.session(tmp_path, policy="uniform", batch=5)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(ask_often, [tmp_path, tmp_path], [12, 12]))
    asks = [ask for own in found for ask in own]
    assert len(asks) == 20  # one batch an arm
    assert len({ask_id for ask_id, _, _ in asks}) == len({(model, item) for _, model, item in asks}) == 20


def ask_often(data: Path, n_times: int) -> list[tuple[str, str, str]]:
    session = Session.open(data, "s")
    return [(ask.ask_id, ask.model_id, ask.item_id) for _ in range(n_times) for ask in session.ask(1).asks]


def test_one_object_serves_many_threads(world, tmp_path):
    session = world.session(tmp_path, policy="pulse", batch=5, pull_budget=120, delta=1e-6)

    def work(_: int) -> int:
        n_made = 0
        for _ in range(200):
            reply = session.ask(1)
            if reply.stop:
                break
            n_made += session.tell(world.answers(reply)).accepted
        return n_made

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 120
    assert Session.open(tmp_path, "s").status() == session.status()


def test_names_choices_and_second_sessions_are_refused_in_a_sentence(world, tmp_path):
    world.session(tmp_path, policy="race")
    with pytest.raises(CapevalError, match="session 's' exists") as refused:
        world.session(tmp_path, policy="race")
    assert refused.value.exit_code == 1
    for name in ("", "../up", "a/b", ".hidden", "a" * 65, "ends.", "mit ü", "nul\0"):
        with pytest.raises(UsageError, match="session name"):
            Session.open(tmp_path, name)
    with pytest.raises(UsageError, match="no session 'other'; there are: s"):
        Session.open(tmp_path, "other")
    for choices, words in (
        ({"arms": ["arm0"]}, "at least 2"),
        ({"arms": ["arm0", "arm0"]}, "named twice"),
        ({"arms": ["arm0", " "]}, "empty name"),
        ({"policy": "best"}, "no policy 'best'"),
        ({"policy": "naive_pooling"}, "does not run live"),
        ({"policy": "successive_rejects_shared"}, "give a pull budget"),
        ({"delta": 0.7}, "delta is 0.7"),
        ({"batch": 0}, "batch is 0"),
        ({"items": ["i999"]}, "'i999' is not in benchmark 'quiz'"),
        ({"items": []}, "at least one item_id"),
        ({"prices": {"arm0": -1.0}}, "price of 'arm0'"),
        ({"cost_budget": 0.0}, "cost budget is 0"),
    ):
        with pytest.raises(UsageError, match=words):
            world.setup(**choices)
    with pytest.raises(UsageError, match="max is 0"):
        Session.open(tmp_path, "s").ask(0)
    assert sorted(path.name for path in (tmp_path / "sessions").iterdir()) == ["s"]


def test_too_few_other_models_leave_the_policies_that_need_no_predictor(tmp_path):
    few = World(n_training=19)
    with pytest.raises(CapevalError, match="only 19 models of benchmark 'quiz' can teach a predictor"):
        few.setup(policy="pulse")
    for policy in ("race", "ucb_e"):
        setup = few.setup(policy=policy)
        assert setup.predictor is None and setup.config.predictor_version is None
    assert "only 19 models" in few.setup(policy="race").config.no_predictor


def test_models_that_answer_as_an_arm_does_teach_nothing(world, tmp_path):
    known = world.source.item_scores
    twin = known[known["model_id"] == "train00"].assign(model_id="arm0")
    source = replace(world.source, item_scores=type(known)(np.vstack([known, twin]), columns=known.columns))
    source.item_scores["quality"] = source.item_scores["quality"].astype(float)
    setup = setup_of(source, "s", SessionChoices(world.arms))
    assert (world.setup().config.n_training_models, setup.config.n_training_models) == (24, 23)
    named = replace(world.source, look_alikes=(("arm1", "train03"),))
    assert setup_of(named, "s", SessionChoices(world.arms)).config.n_training_models == 23


def test_a_subset_of_items_and_items_without_factors_are_asked_all_the_same(world, tmp_path):
    session = world.session(tmp_path, policy="pulse", items=world.items[10:40])
    assert session.config.n_items == 30
    assert {item for _, item in world.play(session)} <= set(world.items[10:40])
    known = world.source.item_scores
    hole = known[~((known["item_id"] == "i000") & (known["model_id"] == "train00"))]
    setup = setup_of(replace(world.source, item_scores=hole), "t", SessionChoices(world.arms))
    assert setup.config.n_items == 60
    assert (setup.predictor.item_factors[0] == 0.0).all() and (setup.predictor.item_factors[1:] != 0.0).all()


def test_a_changed_predictor_or_item_list_is_noticed(world, tmp_path):
    session = world.session(tmp_path, policy="pulse")
    folder = tmp_path / "sessions" / "s"
    with (folder / "predictor.npz").open("ab") as file:
        file.write(b"x")
    with pytest.raises(CapevalError, match=r"predictor\.npz: is not the file the session was made with"):
        Session.open(tmp_path, "s").ask()
    (folder / "items.jsonl").write_bytes(b"")
    with pytest.raises(CapevalError, match=r"items\.jsonl: is not the file"):
        Session.open(tmp_path, "s")
    (folder / "session.json").write_text("{")
    with pytest.raises(CapevalError, match=r"session\.json: damaged"):
        Session.open(tmp_path, "s")
    assert session.config.predictor_version
