"""The oracle's and the frontier's figures on real benchmarks, computed from the files without the pipeline."""

import numpy as np
import pandas as pd
import pytest

from capeval_pipeline.arrays.generations import encode_generations
from capeval_pipeline.methods.debiasing import DEBIASERS, DrawTable, OracleProblem
from capeval_pipeline.methods.debiasing.frontier_analysis import analyse_cost_axis
from capeval_pipeline.methods.debiasing.oracle_analysis import analyse_oracle

QUICK = {"n_simulations": 20, "n_refits": 3}


def encoded(shared, name):
    frame = pd.read_parquet(shared / "data" / name / "results.parquet")
    names = {"model": "model_id", "generation": "generation_id", "score": "quality"}
    frame = frame.rename(columns=names)
    for column in ("cost_usd", "latency_s"):
        if column not in frame:
            frame[column] = np.nan
    return encode_generations(frame)


@pytest.mark.slow
def test_few_draws_estimate_what_ten_show(shared):
    scores = encoded(shared, "routerdc7_g10").scores
    value, naive = {}, {}
    for n_draws in (2, 3, 5, 10):  # the order of draws is arbitrary there: any of them are a sample
        problem = OracleProblem(DrawTable(scores[:, :, :n_draws], has_true_generations=False), **QUICK)
        value[n_draws] = DEBIASERS["bias_corrected"](problem).value
        naive[n_draws] = DEBIASERS["naive"](problem).value
    assert max(abs(value[n_draws] - value[10]) for n_draws in (2, 3, 5)) <= 0.006
    assert naive[3] - naive[10] > 0.012  # what the naive oracle does meanwhile


@pytest.mark.slow
def test_agents_with_real_costs_are_refused_at_the_ceiling_but_keep_their_bracket(shared):
    found = encoded(shared, "humaneval_agents")
    problem = OracleProblem(DrawTable(found.scores, found.cost_usd), **QUICK)
    oracle = analyse_oracle(problem)
    assert (oracle.verdict.kind, oracle.verdict.cause, len(found.models)) == ("bracket_only", "ceiling", 26)
    assert oracle.ceiling_share == pytest.approx(0.98, abs=0.005)
    assert oracle.estimates["", "naive"].value == pytest.approx(0.9866, abs=5e-5)
    analysis = analyse_cost_axis(problem, found.cost_usd, verdict=oracle.verdict, n_multipliers=100)
    assert analysis.best.quality == pytest.approx(0.9329, abs=5e-5)
    assert analysis.best.cost_usd == pytest.approx(0.0388, abs=5e-5)
    assert analysis.best_quality_held_out < analysis.best.quality  # 164 items: the best of 26 is partly luck


@pytest.mark.slow
def test_latency_is_the_cost_where_no_other_is_known(shared):
    found = encoded(shared, "terminal_bench_011")
    assert found.cost_usd is None and found.latency_s is not None
    assert len(found.latency_reasons) == 3  # of 13 arms
    problem = OracleProblem(DrawTable(found.scores), **QUICK)
    oracle = analyse_oracle(problem)
    assert (oracle.verdict.kind, oracle.verdict.cause) == ("bracket_only", "items")
    analysis = analyse_cost_axis(problem, found.latency_s, verdict=oracle.verdict, statistic="p95", n_multipliers=100)
    assert analysis.n_models == 10
    curve = next(c for c in analysis.curves if (c.estimator, c.routing) == ("headline", "pre_hoc"))
    assert np.isnan(curve.quality).all() and (curve.lower <= curve.upper).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["routerbench_part", "routerdc7_g10"])
def test_one_draw_of_each_gives_an_upper_bound_only(shared, name):
    found = encoded(shared, name)
    problem = OracleProblem(DrawTable(found.scores[:, :, :1]), **QUICK)
    oracle = analyse_oracle(problem)
    assert oracle.verdict.kind == "upper_bound_only"
    assert np.isnan(oracle.estimates["", "headline"].value) and np.isnan(oracle.estimates["", "headline"].lower)
    assert oracle.estimates["", "headline"].upper >= oracle.estimates["", "naive"].value
