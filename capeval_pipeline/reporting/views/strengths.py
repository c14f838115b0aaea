"""Views on who is better: ranks and what is known of them, the first against the others, ranks that changed."""

from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.numbers import UNKNOWN, count, dollars, is_unknown, number, score
from capeval_pipeline.reporting.queries import Row
from capeval_pipeline.reporting.views.view import Column, View, interval, plain


def _ranks(row: Row) -> str:
    lower, upper = row["rank_lower"], row["rank_upper"]
    if is_unknown(lower) or is_unknown(upper):
        return UNKNOWN
    return str(lower) if lower == upper else f"{lower} to {upper}"


def _told(row: Row) -> str:
    return "cannot tell" if row["verdict"] == "cannot_tell" else "a real difference"


LEADERBOARD = View(
    "leaderboard",
    "Models by mean score; where there are judgments alone, by the share of judgments won. Could be: ranks that cannot "
    "be told apart (95 %, adjusted for all pairs).",
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
