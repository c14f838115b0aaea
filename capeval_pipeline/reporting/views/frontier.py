"""Views on mixtures of models: what they gain, by which estimator, within a budget or a limit in seconds."""

from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.estimator_names import ESTIMATORS
from capeval_pipeline.reporting.numbers import dollars, percent, score, seconds
from capeval_pipeline.reporting.views.view import Column, View, interval, plain, with_interval

ROUTINGS = {
    "pre_hoc": "one model chosen per item",
    "constant": "fixed mixture, item not seen",
    "cluster_router": "router by clusters (test items)",
    "post_hoc_pay_all": "all asked, perfect judge picks, all paid",
    "post_hoc_pay_kept": "all asked, perfect judge picks, one paid",
    "post_hoc_stop": "asked in turn until a perfect judge stops",
}

FRONTIER = View(
    "frontier",
    "What a mixture gains over the best single model. Rows with a perfect judge are bounds, not something to build.",
    queries.FRONTIER_HEADLINES,
    (
        Column("how it is done", lambda row: ROUTINGS.get(row["routing"], str(row["routing"])), False),
        Column("estimate", lambda row: ESTIMATORS.get(row["estimator"], str(row["estimator"])), False),
        with_interval(
            "quality at the best model's cost",
            "oracle_quality_at_matched_cost",
            "oracle_quality_at_matched_cost_lower",
            "oracle_quality_at_matched_cost_upper",
            score,
        ),
        with_interval(
            "fewer errors at the same cost",
            "matched_cost_error_reduction",
            "matched_cost_error_reduction_lower",
            "matched_cost_error_reduction_upper",
            percent,
        ),
        with_interval(
            "cost saved at the same quality",
            "matched_quality_cost_saving",
            "matched_quality_cost_saving_lower",
            "matched_quality_cost_saving_upper",
            percent,
        ),
    ),
)

ORACLE_ESTIMATES = View(
    "oracle_estimates",
    "Mean quality of the best model per item, by estimator; the naive maximum is an upper end, not an answer.",
    queries.ORACLE_ESTIMATES,
    (
        Column("estimate", lambda row: ESTIMATORS.get(row["estimator"], str(row["estimator"])), False),
        plain("value", "value", score),
        interval("95 %, items of this kind", "lower", "upper"),
        interval("95 %, exactly these items", "lower_fixed", "upper_fixed"),
        plain("takes for granted", "assumption"),
    ),
)

BUDGET_CHOICES = View(
    "budget_choices",
    "What a cost budget an item buys: the best single model, the best fixed mixture, the best choice per item.",
    queries.BUDGET_CHOICES,
    (
        plain("budget an item", "cost_budget", dollars),
        plain("best single model", "best_single_model_id"),
        plain("its quality", "best_single_quality", score),
        plain("fixed mixture", "constant_quality", score),
        plain("router by clusters", "cluster_router_quality", score),
        with_interval("best choice per item", "mixture_quality", "mixture_lower", "mixture_upper", score),
        plain("naive (biased)", "naive_quality", score),
    ),
)

LATENCY_LIMITS = View(
    "latency_limits",
    "What a whole system reaches where at most 5 % of its answers may take longer; with few draws a wide range.",
    queries.LATENCY_LIMITS,
    (
        plain("seconds", "latency_limit_s", seconds),
        plain("best single model within it", "best_model_id"),
        plain("its quality", "best_quality", score),
        plain("its late answers", "best_share_late", percent),
        interval("best choice per item, 95 %", "lower", "upper"),
        plain("cross-fit", "cross_fit_quality", score),
        plain("naive (biased)", "naive_quality", score),
    ),
)
