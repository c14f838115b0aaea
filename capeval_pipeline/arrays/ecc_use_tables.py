"""What clusters are used for, as tables: routing, probe policies and draws, new models, unknown domains."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from capeval_pipeline.arrays.ecc_tables import gain_columns
from capeval_pipeline.methods.ecc.cold_start import ColdStartRow
from capeval_pipeline.methods.ecc.evaluation import Gain
from capeval_pipeline.methods.ecc.probing import Probes
from capeval_pipeline.methods.ecc.routing import RouterResult


def routing_frame(results: Mapping[tuple[str, str], RouterResult]) -> pd.DataFrame:
    """Rows of estimates.routing_evaluation."""
    return pd.DataFrame(
        [
            {
                "router": router,
                "probe_policy": policy,
                "n_items": result.n_items,
                "mean_score": result.mean_score,
                "mean_cost_usd": result.mean_cost,
                "share_of_oracle_gain": result.share_of_oracle_gain,
                "score_lower": result.score_lower,
                "score_upper": result.score_upper,
                "share_lower": result.share_lower,
                "share_upper": result.share_upper,
            }
            for (router, policy), result in results.items()
        ]
    )


def policies_frame(found: Mapping[str, tuple[Probes, Mapping[str, Gain]]]) -> pd.DataFrame:
    """Rows of estimates.probe_policies."""
    return pd.DataFrame(
        [
            {
                "policy": policy,
                "pair_subset": subset,
                "informative_share": probes.informative_share,
                "n_pairs": gain.n_pairs,
                "gain_percent": gain.gain_percent,
                "lower": gain.lower,
                "upper": gain.upper,
            }
            for policy, (probes, gains) in found.items()
            for subset, gain in gains.items()
        ]
    )


def sensitivity_frame(draws: Mapping[str, Sequence[Mapping[str, tuple[int, float]]]]) -> pd.DataFrame:
    """Rows of estimates.probe_sensitivity; draws by method, each by pair_subset (n_pairs, gain_percent)."""
    return pd.DataFrame(
        [
            {"method": method, "draw": draw, "pair_subset": subset, "n_pairs": n_pairs, "gain_percent": gain}
            for method, of_method in draws.items()
            for draw, found in enumerate(of_method)
            for subset, (n_pairs, gain) in found.items()
        ]
    )


def cold_start_frame(found: Iterable[tuple[str, Sequence[ColdStartRow]]]) -> pd.DataFrame:
    """Rows of estimates.cold_start_evaluation, from (held out model, its rows)."""
    return pd.DataFrame(
        [
            {
                "held_out_model_id": model,
                "method": row.method,
                "pull_budget": row.pull_budget,
                "gain_percent": row.gain_percent,
                "gain_percent_unseen": row.gain_percent_unseen,
                "n_calls": row.n_calls,
                "rank_error": row.rank_error,
            }
            for model, rows in found
            for row in rows
        ]
    )


def domains_frame(
    found: Iterable[tuple[str, Mapping[tuple[str, str, str], tuple[int | None, Gain]]]],
) -> pd.DataFrame:
    """Rows of estimates.ood_evaluation, from (test categories, gains); one row where a method has no clusters."""
    rows = {
        (name, method, n_clusters, inference, subset): {
            "test_categories": name,
            "method": method,
            "n_clusters": n_clusters,
            "inference": inference,
            "pair_subset": subset,
            **gain_columns(gain),
        }
        for name, gains in found
        for (method, inference, subset), (n_clusters, gain) in gains.items()
    }
    return pd.DataFrame(list(rows.values())).astype({"n_clusters": "Int64"})
