"""Views on the data behind the answers: costs, judges, coverage, items, files, refusals, versions."""

from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.numbers import count, dollars, number, percent, score, words
from capeval_pipeline.reporting.views.view import Column, View, plain, with_interval

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
