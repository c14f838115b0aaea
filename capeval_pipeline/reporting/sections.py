"""The sections of the report: one question of a reader each, with the figures and tables that answer it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capeval_pipeline.reporting import queries, views
from capeval_pipeline.reporting.figures.bias_curve import bias_curve
from capeval_pipeline.reporting.figures.cluster_profiles import cluster_profiles
from capeval_pipeline.reporting.figures.ecc_gains import ecc_gains
from capeval_pipeline.reporting.figures.frontier import frontier, latency_frontier
from capeval_pipeline.reporting.figures.identification import identification_curves, interval_widths
from capeval_pipeline.reporting.figures.leaderboard import leaderboard
from capeval_pipeline.reporting.figures.oracle_estimators import oracle_estimators
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.figures.studies import bias_decay, debiaser_errors, interval_coverage, topic_entropy
from capeval_pipeline.reporting.figures.win_rates import win_rates
from capeval_pipeline.reporting.queries import Query
from capeval_pipeline.reporting.views import View


@dataclass(frozen=True)
class Drawing:
    """A figure of a section: build takes the rows of each query, in order, and gives None for nothing to draw.

    is_optional: left out without a word where there is nothing to draw.
    """

    name: str
    queries: Sequence[Query]
    build: Callable[..., Figure | None]
    nothing: str = "Nothing to draw: not computed."
    is_optional: bool = False


@dataclass(frozen=True)
class Section:
    """A question with its figures and tables.

    questions: those of marts.verdicts whose sentences lead the section. reasons: those whose reasons stand where there
    is nothing, if they are others. optional: views that are left out without a word when they have no rows.
    """

    id: str
    heading: str
    questions: Sequence[str]
    drawings: Sequence[Drawing] = ()
    views: Sequence[View] = ()
    optional: Sequence[View] = ()
    about: str = ""
    reasons: Sequence[str] = ()


SECTIONS: tuple[Section, ...] = (
    Section(
        "leaderboard",
        "Which models are better, and which ranks are real?",
        ("strengths", "order_bias"),
        (Drawing("leaderboard", (queries.LEADERBOARD,), leaderboard),),
        (views.LEADERBOARD,),
        (views.RANK_CHANGES, views.ORDER_BIAS),
    ),
    Section(
        "pairs",
        "Who beats whom?",
        (),
        (Drawing("win-rates", (queries.WIN_RATES,), win_rates, "Nothing to draw: fewer than two models compared."),),
        (views.AGAINST_BEST,),
        reasons=("strengths",),
    ),
    Section(
        "clusters",
        "What is each model good at?",
        ("clusters", "human_labels", "item_embeddings"),
        (
            Drawing(
                "cluster-profiles",
                (queries.CLUSTER_PROFILES,),
                cluster_profiles,
                "Nothing to draw: no clusters, or no model was compared often enough in any of them.",
            ),
        ),
        (views.CLUSTERS,),
        reasons=("clusters",),
    ),
    Section(
        "prediction",
        "Do the clusters predict anything?",
        ("probe", "probe_policies", "probe_sensitivity", "out_of_domain", "cold_start"),
        (Drawing("ecc-gains", (queries.ECC_GAINS,), ecc_gains),),
        (views.ECC_GAINS,),
    ),
    Section("routing", "Does routing by clusters pay?", ("routing",), (), (views.ROUTING,)),
    Section(
        "identification",
        "How few calls find the best model?",
        ("identification",),
        (
            Drawing("identification-curves", (queries.IDENTIFICATION_CURVES,), identification_curves),
            Drawing("interval-widths", (queries.IDENTIFICATION_INTERVALS,), interval_widths),
        ),
        (views.IDENTIFICATION,),
        (views.GAP_CLASSES, views.INTERVALS),
        "Replays on the stored answers: every policy gets the same models and the same order of items.",
    ),
    Section(
        "frontier",
        "How much better is the best mixture, at what cost?",
        ("frontier", "frontier_saving", "frontier_router", "frontier_latency"),
        (
            Drawing(
                "frontier",
                (queries.FRONTIER_CURVES, queries.SINGLE_MODELS, queries.FRONTIER_VERDICT),
                frontier,
                "Nothing to draw: no frontier was computed, for which two models with known costs are needed.",
            ),
            Drawing(
                "frontier-latency",
                (queries.LATENCY_CURVES, queries.LATENCY_MODELS, queries.FRONTIER_VERDICT),
                latency_frontier,
                is_optional=True,
            ),
        ),
        (views.FRONTIER,),
        (views.BUDGET_CHOICES, views.LATENCY_LIMITS),
        "Best choice per item: as if each model's chance on each item were known; a ceiling, not a plan. A draw is one "
        "answer of a model to an item, a cell all draws of one model on one item, a bracket the range that holds the "
        "truth.",
    ),
    Section(
        "luck",
        "How much of the mixture's gain is luck?",
        ("frontier_draws",),
        (
            Drawing(
                "bias-curve",
                (queries.BIAS_CURVE, queries.ORACLE_ESTIMATES),
                bias_curve,
                "Nothing to draw: with one draw of each model per item the naive maximum cannot be taken apart.",
            ),
            Drawing(
                "oracle-estimators",
                (queries.ORACLE_ESTIMATES, queries.FRONTIER_VERDICT),
                oracle_estimators,
                is_optional=True,
            ),
        ),
        (views.ORACLE_ESTIMATES,),
        about="The answer's 95 % intervals are made to hold the truth in at least 80 % of planted benchmarks with two "
        "or three draws and in 85 % with five or more, whatever the world; how often they did is measured by "
        "capeval run --only studies, on a page of its own.",
        reasons=("frontier",),
    ),
    Section(
        "coverage",
        "What is there, and which items say something?",
        ("coverage",),
        (),
        (views.COVERAGE,),
        (views.ITEM_HEALTH,),
    ),
    Section("costs", "Are the costs right?", ("costs",), (), (views.COST_AUDIT,)),
    Section("files", "What was read, and what was refused?", ("ingest",), (), (views.FILES,), (views.REJECTIONS,)),
    Section("versions", "What was this page made from?", (), (), (views.DATA_VERSIONS,)),
)

STUDIES: tuple[Section, ...] = (
    Section(
        "interval-coverage-study",
        "Do the intervals hold what they promise?",
        (),
        (Drawing("interval-coverage", (queries.INTERVAL_COVERAGE,), interval_coverage),),
        (views.INTERVAL_COVERAGE,),
    ),
    Section(
        "bias-decay-study",
        "How fast does the naive figure's luck go away with more draws?",
        (),
        (Drawing("bias-decay", (queries.BIAS_DECAY,), bias_decay),),
        (views.BIAS_DECAY,),
    ),
    Section(
        "debiaser-study",
        "Which estimator takes the luck away?",
        (),
        (Drawing("debiaser-errors", (queries.DEBIASER_COMPARISON,), debiaser_errors),),
        (views.DEBIASER_COMPARISON,),
    ),
    Section(
        "topic-entropy-study",
        "Is there more to gain where topics are mixed?",
        (),
        (Drawing("topic-entropy", (queries.TOPIC_ENTROPY,), topic_entropy),),
        (views.TOPIC_ENTROPY,),
    ),
)
"""The page of the studies on synthetic worlds, the same for every benchmark."""
