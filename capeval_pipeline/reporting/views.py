"""Tables for people: which columns of a query are shown, under which heading, written how.

The report and the reading commands show the same views, so a number reads the same in both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.figures.ecc_gains import method_name, router_name
from capeval_pipeline.reporting.figures.identification import INTERVALS as INTERVAL_NAMES
from capeval_pipeline.reporting.figures.identification import policy_name
from capeval_pipeline.reporting.numbers import (
    UNKNOWN,
    Writer,
    between,
    count,
    dollars,
    is_unknown,
    number,
    percent,
    percent_value,
    score,
    seconds,
    shortened,
    words,
)
from capeval_pipeline.reporting.queries import Query, Row


@dataclass(frozen=True)
class Column:
    """A column of a table for people: its heading, a row's cell as text, whether cells are numbers.

    is_wide: long texts, which a terminal has no room for; the page shows them.
    """

    heading: str
    cell: Callable[[Row], str]
    is_number: bool = True
    is_wide: bool = False


@dataclass(frozen=True)
class View:
    """A table for people: its name (also the key in --json), caption, the query and the columns shown of it.

    instead: a sentence to show in place of rows that would say nothing, "" to show them.
    """

    name: str
    caption: str
    query: Query
    columns: Sequence[Column]
    instead: Callable[[Sequence[Row]], str] = lambda _: ""


ESTIMATORS = {
    "headline": "the answer (luck removed)",
    "naive": "naive maximum (biased)",
    "cross_fit": "cross-fit (lower end)",
    "bias_corrected": "bias corrected",
    "pgm": "topic model",
    "bracket_interpolation": "inside the bracket",
    "extrapolation_half": "extrapolated, root",
    "extrapolation_fitted": "extrapolated, fitted",
    "beta_binomial": "beta-binomial (a warning)",
    "jackknife": "jackknife",
    "gaussian": "gaussian",
}
ROUTINGS = {
    "pre_hoc": "one model chosen per item",
    "constant": "fixed mixture, item not seen",
    "cluster_router": "router by clusters",
    "post_hoc_pay_all": "all asked, perfect judge picks, all paid",
    "post_hoc_pay_kept": "all asked, perfect judge picks, one paid",
    "post_hoc_stop": "asked in turn until a perfect judge stops",
}


ALIKE = 0.005
"""Shares of the items that differ by no more than this are one size."""


def plain(heading: str, column: str, writer: Writer = words) -> Column:
    """The column as its writer writes it; texts (writer `words`) stand left, numbers right."""
    return Column(heading, lambda row: writer(row[column]), writer is not words)


def interval(heading: str, lower: str, upper: str, writer: Writer = score) -> Column:
    """Two columns as "a to b"."""
    return Column(heading, lambda row: between(row[lower], row[upper], writer))


def with_interval(heading: str, column: str, lower: str, upper: str, writer: Writer) -> Column:
    """A number and its interval in one cell, as "x (a to b)"."""

    def cell(row: Row) -> str:
        told = between(row[lower], row[upper], writer)
        return writer(row[column]) + (f" ({told})" if told != UNKNOWN else "")

    return Column(heading, cell)


def _ranks(row: Row) -> str:
    lower, upper = row["rank_lower"], row["rank_upper"]
    if is_unknown(lower) or is_unknown(upper):
        return UNKNOWN
    return str(lower) if lower == upper else f"{lower} to {upper}"


def _told(row: Row) -> str:
    return "cannot tell" if row["verdict"] == "cannot_tell" else "a real difference"


def _examples(row: Row) -> str:
    prompts: list[Any] = row["example_prompts"] or []
    if not prompts:
        return words(row["top_item_ids"])
    return " · ".join(f"“{shortened(' '.join(str(prompt).split()), 140)}”" for prompt in prompts[:2])


def _held(row: Row) -> str:
    if not row["held_categories"]:
        return UNKNOWN
    parts = zip(row["held_categories"], row["held_shares"], row["held_of_category"], strict=True)
    return ", ".join(
        f"{percent(share)} {name} ({percent(of_category)})" for name, share, of_category in list(parts)[:3]
    )


def _best_there(row: Row) -> str:
    ranks = row["best_ranks_overall"] or []
    names = row["best_model_ids"] or []
    return _few([name if is_unknown(rank) else f"{name} ({rank})" for name, rank in zip(names, ranks, strict=True)])


def _reversed(row: Row) -> str:
    if not row["n_compared"]:
        return UNKNOWN
    if not row["n_reversed"]:
        return "as overall: a topic"
    pairs = "pair" if row["n_reversed"] == 1 else "pairs"
    return f"{count(row['n_reversed'])} {pairs} reversed, e.g. {row['reversed_above']} above {row['reversed_below']}"


def clusters_alike(rows: Sequence[Row]) -> str:
    """Said of clusters that are all of one size and in which no model was compared; rows: queries.CLUSTERS."""
    weights = [row["weight"] for row in rows if not is_unknown(row["weight"])]
    if len(weights) < 2 or any(row["n_compared"] for row in rows) or max(weights) - min(weights) > ALIKE:
        return ""
    return (
        f"The comparisons do not tell the {len(rows)} clusters apart: each holds about {percent(weights[0])} of the "
        f"items, and in none was a model compared often enough to be ranked, so they are not listed."
    )


LEADERBOARD = View(
    "leaderboard",
    "Models by mean score. Rank range: ranks that cannot be told apart (95 %, adjusted for all pairs).",
    queries.LEADERBOARD,
    (
        plain("rank", "rank", count),
        Column("could be", _ranks),
        plain("model", "model_id"),
        plain("mean score", "mean_score", score),
        interval("95 % interval", "score_lower", "score_upper"),
        plain("tie group", "tie_group", count),
        plain("items", "n_items", count),
        plain("cost an item", "mean_cost_usd", dollars),
    ),
)

AGAINST_BEST = View(
    "against_best",
    "The first model against each other one, on the items they share. An interval is for its pair alone; p and verdict "
    "are adjusted for all pairs (Holm), so they tell fewer apart.",
    queries.AGAINST_BEST,
    (
        plain("behind the first", "other_model_id"),
        plain("by", "ahead", score),
        interval("95 % interval", "ahead_lower", "ahead_upper"),
        plain("adjusted p", "p_adjusted", number),
        plain("shared items", "n_shared_items", count),
        Column("verdict", _told, False),
    ),
)

CLUSTERS = View(
    "clusters",
    "Clusters of items, heaviest first. Holds: categories in it, in brackets how much of the category is here (less "
    "than all: it was split; several: they were merged). Reversed: pairs of models that surely stand the other way "
    "round than overall; without any the cluster is a topic, not a capability.",
    queries.CLUSTERS,
    (
        plain("cluster", "cluster_id", count),
        plain("label", "label"),
        plain("share of items", "weight", percent),
        Column("holds (share of the category)", _held, False),
        Column("best there, rank overall (not to be told apart)", _best_there, False),
        Column("against the ranking overall", _reversed, False),
        Column("examples", _examples, False, is_wide=True),
    ),
    clusters_alike,
)

ECC_GAINS = View(
    "ecc_gains",
    "Gain over one ranking on test items (percent of its loss removed).",
    queries.ECC_GAINS,
    (
        Column("method", method_name, False),
        plain("pairs", "pair_subset"),
        plain("number of pairs", "n_pairs", count),
        plain("gain", "gain_percent", percent_value),
        interval("95 % interval", "gain_lower", "gain_upper", percent_value),
    ),
)

ROUTING = View(
    "routing",
    "Routers on test items. The probe's winner sees the answers it is scored on, so it measures nothing.",
    queries.ROUTING,
    (
        Column("router", lambda row: router_name(row["router"]), False),
        plain("probe", "probe_policy"),
        with_interval("mean score", "mean_score", "score_lower", "score_upper", score),
        plain("cost an item", "mean_cost_usd", dollars),
        with_interval("share of the oracle's gain", "share_of_oracle_gain", "share_lower", "share_upper", percent),
        plain("items", "n_items", count),
    ),
)

IDENTIFICATION = View(
    "identification",
    "Calls until a policy names a best model in so many of its replays (90 % interval over replays), what it saves, "
    "and in how many replays all its intervals held at all times (90 % are promised unless delta is set).",
    queries.IDENTIFICATION_SUMMARY,
    (
        Column("policy", lambda row: policy_name(row["policy"]), False),
        Column("calls for 90 %", lambda row: _calls(row, "pulls_for_90", "pulls_90_lower", "pulls_90_upper")),
        Column("calls for the target", lambda row: _calls(row)),
        with_interval("saved against UCB-E", "saving_vs_ucb_e", "saving_lower", "saving_upper", percent),
        Column("all intervals hold", lambda row: _coverage(row)),
        Column("answers read until certified", lambda row: _certified(row), True),
        plain("wrong, mean over all budgets", "mean_error", percent),
        plain("width after 200 answers", "mean_interval_width", score),
        plain("target", "target_accuracy", percent),
        plain("replays", "n_runs", count),
    ),
)

GAP_CLASSES = View(
    "gap-classes",
    "Difficulty by how far apart the two best models are: replays on subsets of these models with such a gap. The last "
    "column counts the replays above, of all models at once, that are as hard.",
    queries.IDENTIFICATION_GAP_CLASSES,
    (
        plain("gap of the best two", "gap_class"),
        Column("policy", lambda row: policy_name(row["policy"]), False),
        Column("calls for the target", lambda row: _calls(row)),
        Column("of all answers", lambda row: _share_of_cells(row)),
        with_interval("saved against UCB-E", "saving_vs_ucb_e", "saving_lower", "saving_upper", percent),
        Column("read until certified", lambda row: _certified_in_class(row)),
        plain("models", "n_arms", count),
        plain("replays", "n_runs", count),
        plain("replays above", "n_study_runs", count),
    ),
)

INTERVALS = View(
    "intervals",
    "Intervals of one model's mean by number of answers; missed: share of arms whose interval was wrong at some count.",
    queries.IDENTIFICATION_INTERVALS,
    (
        Column("policy", lambda row: policy_name(row["policy"]), False),
        Column("interval", lambda row: INTERVAL_NAMES.get(row["interval"], str(row["interval"])), False),
        plain("answers", "n_answers", count),
        plain("mean width", "mean_width", score),
        plain("missed so far", "miss_any_time", percent),
        plain("arm replays", "n_arm_runs", count),
    ),
)

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

INTERVAL_COVERAGE = View(
    "interval_coverage",
    "Measured coverage of the answer's nominal 95 % intervals in planted worlds; refused figures count with their "
    "bracket.",
    queries.INTERVAL_COVERAGE,
    (
        plain("interval", "interval"),
        plain("world", "world"),
        plain("draws", "n_generations", count),
        plain("coverage", "coverage", percent),
        plain("mean width", "mean_width", score),
        plain("given as one figure", "share_point", percent),
        plain("benchmarks", "n_seeds", count),
    ),
)

BIAS_DECAY = View(
    "oracle_bias_decay",
    "How much too high the naive maximum is, by world, models and draws; exponent of its decay.",
    queries.BIAS_DECAY,
    (
        plain("world", "world"),
        plain("models", "n_models", count),
        plain("draws", "n_generations", count),
        plain("true oracle", "true_oracle", score),
        plain("naive", "naive", score),
        plain("bias", "bias", score),
        plain("local exponent", "local_exponent", score),
    ),
)

TOPIC_ENTROPY = View(
    "topic_entropy",
    "Gain of the oracle over the best single model by the mix of topics.",
    queries.TOPIC_ENTROPY,
    (
        plain("topics", "world"),
        plain("mix", "mixture"),
        plain("entropy, nats", "entropy", score),
        plain("gap", "oracle_gap", score),
    ),
)

DEBIASER_COMPARISON = View(
    "debiaser_comparison",
    "Every estimator against the truth of planted worlds; coverage is of its interval for exactly these items.",
    queries.DEBIASER_COMPARISON,
    (
        plain("world", "world"),
        plain("draws", "n_generations", count),
        Column("estimate", lambda row: ESTIMATORS.get(row["estimator"], str(row["estimator"])), False),
        plain("bias", "bias", score),
        plain("error (RMS)", "rmse", score),
        plain("coverage", "coverage", percent),
    ),
)

RANK_CHANGES = View(
    "rank_changes",
    "Ranks against those before the benchmark last changed; models that stayed are left out.",
    queries.RANK_CHANGES,
    (
        plain("model", "model_id"),
        plain("rank before", "previous_rank", count),
        plain("rank now", "rank", count),
        plain("score before", "previous_mean_score", score),
        plain("score now", "mean_score", score),
        plain("change", "change"),
    ),
)

COST_AUDIT = View(
    "cost_audit",
    "Costs by model, suspicious ones first. Unknown costs are never counted as 0.",
    queries.COST_AUDIT,
    (
        plain("model", "model_id"),
        plain("answers", "n_rows", count),
        plain("cost known", "n_known", count),
        plain("recomputed", "n_recomputed", count),
        plain("reported 0", "n_zero", count),
        plain("negative", "n_negative", count),
        plain("off by > 1 %", "n_mismatch", count),
        plain("cached", "n_cached", count),
        plain("never varies", "is_constant"),
        plain("total", "total_cost_usd", dollars),
        plain("judging", "judge_cost_usd", dollars),
    ),
)

ORDER_BIAS = View(
    "order_bias",
    "Whether verdicts depend on which answer was shown first: pairs judged in both orders, and votes for the first.",
    queries.ORDER_BIAS,
    (
        plain("judge", "judge_id"),
        plain("votes", "n_votes", count),
        plain("pairs in both orders", "n_pairs", count),
        plain("other verdict", "n_flips", count),
        plain("opposite winner", "n_reversals", count),
        plain("share", "flip_share", percent),
        with_interval("first answer wins", "first_win_share", "lower", "upper", percent),
    ),
)

COVERAGE = View(
    "coverage",
    "What there is of each model, sparsest first; the mean score if errors are left out and if they count as wrong.",
    queries.COVERAGE,
    (
        plain("model", "model_id"),
        plain("items scored", "n_scored_items", count),
        plain("of", "n_items", count),
        plain("errors", "n_error", count),
        plain("no verdict", "n_unscored", count),
        plain("unusable", "n_invalid", count),
        plain("not run", "n_not_run", count),
        plain("draws an item", "generations_median", number),
        plain("judgments", "n_judgments", count),
        plain("score, errors left out", "mean_ignoring_errors", score),
        plain("score, errors wrong", "mean_errors_wrong", score),
    ),
)

ITEM_HEALTH = View(
    "item_health",
    "Items by category: those that tell models apart and those that do not.",
    queries.ITEM_HEALTH,
    (
        plain("category", "category"),
        plain("items", "n_items", count),
        plain("solved by all", "n_solved_by_all", count),
        plain("by none", "n_solved_by_none", count),
        plain("all models tie", "n_all_tied", count),
        plain("better models do worse", "n_negative_discrimination", count),
        plain("with errors", "n_with_errors", count),
        plain("same text as another", "n_doubled", count),
        plain("text differs by file", "n_text_differs", count),
    ),
)

FILES = View(
    "files",
    "Files read: records read = kept + rejected + duplicate.",
    queries.FILES,
    (
        plain("file", "path"),
        plain("format", "format"),
        plain("status", "status"),
        plain("read", "n_read", count),
        plain("kept", "n_kept", count),
        plain("rejected", "n_rejected", count),
        plain("duplicate", "n_duplicate", count),
        plain("first rejection", "first_rejection"),
        plain("warnings", "warnings"),
    ),
)

REJECTIONS = View(
    "rejections",
    "What was refused or doubtful, by reason, with the first case.",
    queries.REJECTIONS,
    (
        plain("severity", "severity"),
        plain("reason", "reason"),
        plain("records", "n_records", count),
        Column("first case", lambda row: f"{words(row['path'])}, {words(row['location'])}", False),
        plain("message", "message"),
    ),
)

DATA_VERSIONS = View(
    "data_versions",
    "Versions of the tables behind this page.",
    queries.DATA_VERSIONS,
    (
        plain("table", "table_key"),
        plain("data version", "data_version"),
        plain("code version", "code_version"),
        plain("made at (UTC)", "made_at"),
        plain("seed", "seed", count),
    ),
)


def _few(names: Sequence[Any] | None, limit: int = 4) -> str:
    if not names:
        return UNKNOWN
    listed = ", ".join(str(name) for name in names[:limit])
    return listed + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _calls(row: Row, value: str = "pulls_for_target", lower: str = "pulls_lower", upper: str = "pulls_upper") -> str:
    if is_unknown(row[value]):
        return "not reached"
    return f"{count(row[value])} ({between(row[lower], row[upper], count)})"


def _share_of_cells(row: Row) -> str:
    if is_unknown(row["pulls_for_target"]):
        return UNKNOWN
    return percent(row["pulls_for_target"] / (row["n_arms"] * row["n_items"]))


def _certified_in_class(row: Row) -> str:
    if is_unknown(row["mean_certificate_share"]):
        return UNKNOWN
    return f"{percent(row['mean_certificate_share'])} ({count(row['n_wrong_certificates'])} wrong)"


def _coverage(row: Row) -> str:
    if is_unknown(row["coverage_simultaneous"]):
        return UNKNOWN
    return f"{percent(row['coverage_simultaneous'])} (at least {percent(row['coverage_lower'])})"


def _certified(row: Row) -> str:
    if is_unknown(row["n_certified"]) or row["n_certified"] == 0:
        return UNKNOWN
    told = f"{count(row['n_certified'])} of {count(row['n_runs'])} replays, {count(row['n_wrong_certificates'])} wrong"
    return told if is_unknown(row["certificate_share"]) else f"{percent(row['certificate_share'])} ({told})"
