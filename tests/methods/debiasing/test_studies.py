"""Studies on planted worlds: known decay, concave gaps, and estimators measured against the truth."""

import math

import numpy as np
import pytest

from capeval_pipeline.methods.debiasing.studies import (
    study_bias_decay,
    study_debiasers,
    study_topic_entropy,
    topic_gap,
)


def test_bias_decays_with_the_known_exponents():
    rows = study_bias_decay(seed=1, n_items=150, model_counts=(21,), generations=(1, 50, 400))
    exponent = {(row.world, row.n_generations): row.local_exponent for row in rows}
    # ½ where the best means tie exactly; towards 1 where the two best are apart with a density at 0.
    assert 0.45 <= exponent["equal_means", 50] <= 0.55
    assert 0.75 <= exponent["heterogeneous", 50] <= 1.05
    assert all(row.bias > 0 for row in rows)


def test_a_shared_shock_makes_the_naive_oracle_less_biased():
    rows = study_bias_decay(seed=2, n_items=300, model_counts=(10,), generations=(1, 2, 4))
    bias = {(row.world, row.n_generations): row.bias for row in rows}
    assert bias["correlated", 1] < bias["heterogeneous", 1]


def test_every_estimator_is_compared_in_every_world():
    rows = study_debiasers(seed=3, n_items=120, n_models=5, generations=(3,), n_seeds=2, n_simulations=10)
    assert len({(row.world, row.estimator) for row in rows}) == len(rows) == 5 * 10
    by_estimator = {row.estimator: row for row in rows if row.world == "equal_means"}
    assert abs(by_estimator["bias_corrected"].bias) < 0.5 * by_estimator["naive"].bias
    assert math.isnan(by_estimator["jackknife"].coverage)  # no interval for fixed items


def test_the_gap_of_one_topic_is_the_least_where_topics_are_exchangeable():
    rows = [row for row in study_topic_entropy(seed=4, n_mixtures=60) if row.world == "relabelled"]
    entropy = np.array([row.entropy for row in rows])
    gap = np.array([row.oracle_gap for row in rows])
    assert gap[entropy.argmin()] == pytest.approx(gap.min())
    assert gap[entropy.argmax()] == pytest.approx(gap.max())


def test_the_gap_is_concave_in_the_mix(rng):
    means = rng.random((3, 5))
    best = means.max(axis=1) + 0.1
    for _ in range(50):
        one, other = rng.dirichlet(np.ones(3), 2)
        middle = topic_gap((one + other) / 2, best, means)
        assert middle >= (topic_gap(one, best, means) + topic_gap(other, best, means)) / 2 - 1e-12
