"""Views on finding the best model with few calls: the replays, their classes of difficulty, the intervals."""

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.figures.identification import INTERVALS as INTERVAL_NAMES
from capeval_pipeline.reporting.figures.identification import policy_name
from capeval_pipeline.reporting.numbers import UNKNOWN, between, count, is_unknown, percent, score
from capeval_pipeline.reporting.queries import Row
from capeval_pipeline.reporting.views.view import Column, View, plain, with_interval


def _calls(row: Row, value: str = "pulls_for_target", lower: str = "pulls_lower", upper: str = "pulls_upper") -> str:
    if is_unknown(row[value]):
        return "not reached"
    return f"{count(row[value])} ({between(row[lower], row[upper], count)})"


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
    told = (
        f"{count(row['n_certified'])} of {counted(row['n_runs'], 'replay')}, {count(row['n_wrong_certificates'])} wrong"
    )
    return told if is_unknown(row["certificate_share"]) else f"{percent(row['certificate_share'])} ({told})"


IDENTIFICATION = View(
    "identification",
    "Calls until a policy names a best model in so many of its replays (90 % interval over replays), what it saves, "
    "and in how many replays all its intervals held at all times (90 % are promised unless delta is set). Interval "
    "width: of one model's mean after 200 answers, or after half the items where they are fewer.",
    queries.IDENTIFICATION_SUMMARY,
    (
        Column("policy", lambda row: policy_name(row["policy"]), False),
        Column("calls for 90 %", lambda row: _calls(row, "pulls_for_90", "pulls_90_lower", "pulls_90_upper")),
        Column("calls for the target", _calls),
        with_interval("saved against UCB-E", "saving_vs_ucb_e", "saving_lower", "saving_upper", percent),
        Column("all intervals hold", _coverage),
        Column("answers read until certified", _certified, True),
        plain("wrong, mean over all budgets", "mean_error", percent),
        plain("interval width", "mean_interval_width", score),
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
        Column("calls for the target", _calls),
        plain("of all answers", "share_of_cells", percent),
        with_interval("saved against UCB-E", "saving_vs_ucb_e", "saving_lower", "saving_upper", percent),
        Column("read until certified", _certified_in_class),
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
