"""marts.cost_audit: where costs come from and what is odd about them."""

import pytest


def audit(tables, **generations):
    tables.fill("raw.models", [{"model_id": model} for model in generations])
    for model, rows in generations.items():
        tables.fill("raw.generations", [{"item_id": f"i{n}", "model_id": model, **row} for n, row in enumerate(rows)])
    out = tables.run_all("staging.stg_judgments", "marts.cost_audit")
    assert tables.broken_claims("marts.cost_audit") == []
    return {row["model_id"]: row for row in out}


def test_sources_and_oddities_are_counted(tables):
    row = audit(
        tables,
        m=[
            {"cost_source": "reported", "cost_usd": 1.0, "cost_reported_usd": 1.0, "cost_recomputed_usd": 1.005},
            {"cost_source": "reported", "cost_usd": 1.0, "cost_reported_usd": 1.0, "cost_recomputed_usd": 1.02},
            {"cost_source": "recomputed", "cost_usd": 0.5, "cost_reported_usd": 0.0, "cost_recomputed_usd": 0.5},
            {"cost_source": "unknown", "cost_reported_usd": -1.0, "is_cached": True},
        ],
    )["m"]
    counts = {name: row[name] for name in row if name.startswith("n_")}
    assert counts == {
        "n_rows": 4,
        "n_known": 3,
        "n_reported": 2,
        "n_recomputed": 1,
        "n_unknown": 1,
        "n_zero": 1,
        "n_cached": 1,
        "n_negative": 1,
        "n_mismatch": 1,
        "n_missing_tokens": 4,
    }
    assert row["total_cost_usd"] == 2.5


def test_no_known_cost_is_no_sum(tables):
    row = audit(tables, m=[{"cost_source": "unknown"}])["m"]
    assert (row["total_cost_usd"], row["judge_cost_usd"]) == (None, None)


@pytest.mark.parametrize(
    ("n_rows", "others_vary", "is_suspect"), [(5, True, True), (4, True, False), (5, False, False)]
)
def test_equal_token_counts_are_suspect_from_five_rows_on_where_others_vary(tables, n_rows, others_vary, is_suspect):
    equal = [{"input_tokens": 100, "output_tokens": 10}] * n_rows
    others = [{"input_tokens": 100 + others_vary * n, "output_tokens": 10} for n in range(6)]
    assert audit(tables, m=equal, n=others)["m"]["has_constant_tokens"] is is_suspect


def test_the_days_of_the_prices_are_told(tables):
    out = audit(
        tables,
        m=[{"price_date": "2026-02-01"}, {"price_date": "2025-01-01"}, {"price_date": "2026-02-01"}, {}],
        n=[{}],
    )
    assert (out["m"]["price_date"], out["n"]["price_date"]) == ("2025-01-01, 2026-02-01", None)


def test_equal_costs_are_told(tables):
    out = audit(tables, m=[{"cost_usd": 0.5}] * 5, n=[{"cost_usd": 0.5 + n} for n in range(5)])
    assert (out["m"]["has_constant_cost"], out["n"]["has_constant_cost"]) == (True, False)


def test_the_judge_is_paid_apart_and_a_pair_shares_its_judgment(tables):
    pair = {"item_id": "i", "model_a_id": "m", "model_b_id": "n", "outcome": 1.0, "judge_cost_usd": 1.0}
    tables.fill("raw.judgments", [pair])
    out = audit(tables, m=[{"cost_usd": 0.25, "judge_cost_usd": 0.125}], n=[])
    assert (out["m"]["total_cost_usd"], out["m"]["judge_cost_usd"]) == (0.25, 0.625)
    assert (out["n"]["n_rows"], out["n"]["judge_cost_usd"]) == (0, 0.5)
