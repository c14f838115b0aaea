"""marts.identification_savings: what identification costs, by how close the best two are."""

import pytest


def run(policy, seed, gap, certificate, *, is_correct=True):
    return {
        "policy": policy,
        "seed": seed,
        "n_arms": 10,
        "n_items": 100,
        "best_gap": gap,
        "pull_budget": 1000,
        "is_correct": is_correct,
        "pulls_to_certificate": certificate,
    }


def test_replays_are_grouped_by_gap_class_with_its_lower_end_inside(tables, pick):
    gaps = [0.0, 0.0049, 0.005, 0.01, 0.02, 0.0399, 0.04, 0.5]
    tables.fill("simulations.identification_runs", [run("pulse", s, gap, None) for s, gap in enumerate(gaps)])
    tables.run("marts.identification_savings")
    rows = tables.rows("select * from marts.identification_savings")
    assert pick(rows, "gap_class", "n_runs") == [
        ("<.005", 2),
        (".005–.01", 1),
        (".01–.02", 1),
        (".02–.04", 2),
        ("≥.04", 2),
    ]
    assert tables.broken_claims("marts.identification_savings") == []


def test_certificates_are_compared_with_those_of_ucb_e_in_the_same_replays(tables, pick):
    tables.fill(
        "simulations.identification_runs",
        [
            run("pulse", 0, 0.1, 300),
            run("pulse", 1, 0.1, 500, is_correct=False),
            run("pulse", 2, 0.1, 100),  # ucb_e has none here
            run("ucb_e", 0, 0.1, 400),
            run("ucb_e", 1, 0.1, 600),
            run("ucb_e", 2, 0.1, None),
        ],
    )
    tables.fill("simulations.identification_summary", [{"policy": "pulse", "saving_vs_ucb_e": 0.16, "n_runs": 3}])
    pulse, ucb = tables.run("marts.identification_savings")
    assert pulse["certificate_saving_vs_ucb_e"] == pytest.approx(1 - (300 + 500) / (400 + 600))
    assert (pulse["accuracy"], pulse["n_certified"], pulse["median_pulls_to_certificate"]) == (
        pytest.approx(2 / 3),
        3,
        300,
    )
    assert pulse["mean_certificate_share"] == pytest.approx((300 + 500 + 100) / 3 / 1000)
    assert (pulse["saving_vs_ucb_e"], ucb["saving_vs_ucb_e"], ucb["certificate_saving_vs_ucb_e"]) == (0.16, None, 0)
