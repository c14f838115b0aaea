"""Layer `estimates`, frontier: oracle values, bias curve, frontiers, headlines and diagnostics."""

from capeval_pipeline.storage.tables.contract import Column, Table, flag, integer, partitioned, real, text, texts

SCHEMA = "estimates"

COST_AXIS = text("cost_axis", "what the cost is: usd or latency_p95_s (then costs are seconds)", nullable=False)
ESTIMATOR = text(
    "estimator",
    "naive, cross_fit, extrapolation_half, extrapolation_fitted, jackknife, gaussian, beta_binomial, pgm, "
    "bracket_interpolation, bias_corrected or headline",
    nullable=False,
)
ROUTING = text(
    "routing",
    "pre_hoc, post_hoc_pay_all, post_hoc_pay_kept, post_hoc_stop, constant or cluster_router",
    nullable=False,
)


def with_interval(name: str, meaning: str, unit: str) -> tuple[Column, ...]:
    """A figure and its 95 % limits: x, x_lower, x_upper."""
    return (
        real(name, meaning, unit),
        real(f"{name}_lower", f"95 % limit of {name}", unit),
        real(f"{name}_upper", f"95 % limit of {name}", unit),
    )


ORACLE_ESTIMATES = partitioned(
    SCHEMA,
    "oracle_estimates",
    ["category", "estimator"],
    [
        text("category", "category of items; '' = the whole benchmark", nullable=False),
        ESTIMATOR,
        integer("n_items", "items", "items", nullable=False),
        integer("n_models", "models", "models", nullable=False),
        integer("n_generations", "draws per cell that all estimators use", "draws", nullable=False),
        real("value", "mean over items of the best model's quality; NULL where refused", "quality"),
        real("lower", "95 %, for the population the items stand for", "quality"),
        real("upper", "95 %, for the population the items stand for", "quality"),
        real("lower_fixed", "95 %, for exactly these items", "quality"),
        real("upper_fixed", "95 %, for exactly these items", "quality"),
        text("assumption", "what the estimator takes for granted"),
    ],
    "Quality of the best choice of model per item; one row per benchmark, category and estimator.",
)

ORACLE_BIAS_CURVE = partitioned(
    SCHEMA,
    "oracle_bias_curve",
    ["g", "source"],
    [
        integer("g", "draws per cell", "draws", nullable=False),
        text("source", "observed (subsamples) or forecast (from the model)", nullable=False),
        real("naive_value", "naive oracle with g draws per cell", "quality"),
        real("fitted_value", "fitted curve at g", "quality"),
        real("local_exponent", "exponent of the decay at g"),
    ],
    "The naive oracle by number of draws; one row per benchmark, g and source.",
)

FRONTIER_POINTS = partitioned(
    SCHEMA,
    "frontier_points",
    ["cost_axis", "estimator", "routing", "point"],
    [
        COST_AXIS,
        ESTIMATOR,
        ROUTING,
        integer("point", "running number along the curve, from 0", nullable=False),
        real("cost_usd", "mean cost of an item (in the unit of cost_axis)", "USD", nullable=False),
        real("quality", "best reachable mean quality; NULL where refused or infeasible", "quality"),
        real("lower", "95 %, for the population the items stand for", "quality"),
        real("upper", "95 %, for the population the items stand for", "quality"),
        real("lower_fixed", "95 %, for exactly these items", "quality"),
        real("upper_fixed", "95 %, for exactly these items", "quality"),
    ],
    "Points of the frontiers; one row per benchmark, cost_axis, estimator, routing and point.",
)

FRONTIER_HEADLINES = partitioned(
    SCHEMA,
    "frontier_headlines",
    ["cost_axis", "estimator", "routing"],
    [
        COST_AXIS,
        ESTIMATOR,
        ROUTING,
        integer("n_models", "models with known cost", "models", nullable=False),
        integer("draws_allowed", "draws of a model an item may use", "draws"),
        *with_interval("constant_quality_at_matched_cost", "best mix without looking at the item", "quality"),
        text("best_model_id", "best single model, ties to the cheaper", nullable=False),
        *with_interval("best_quality", "mean quality of the best single model", "quality"),
        real("best_quality_held_out", "the same on items that did not choose it; NULL from 200 items", "quality"),
        *with_interval("best_cost_usd", "mean cost of an item with it (in the unit of cost_axis)", "USD"),
        *with_interval("oracle_quality_at_matched_cost", "frontier at the best single model's cost", "quality"),
        *with_interval("matched_cost_error_reduction", "share of the best model's errors removed", "share"),
        *with_interval("matched_quality_cost_saving", "1 − least cost of the same quality over its cost", "share"),
    ],
    "What a mixture gains over the best model; one row per benchmark, cost_axis, estimator and routing.",
)

FRONTIER_DIAGNOSTICS = partitioned(
    SCHEMA,
    "frontier_diagnostics",
    [],
    [
        real("shock_z", "z of a shock shared by models at equal draws; NULL where draw order is not real"),
        real("shock_factor", "factor on the bias that follows"),
        real("bracket_ratio", "predicted over observed width of the bracket"),
        real("ceiling_share", "share of items on which some model is right in all draws", "share"),
        integer("n_topics", "topics of the model"),
        integer("n_models", "models in all oracle figures", "models", nullable=False),
        texts("left_out", "models left out, as 'model: reason'", nullable=False),
        integer("n_generations", "draws per cell that all estimators use", "draws", nullable=False),
        text("verdict", "point, bracket_only or upper_bound_only", nullable=False),
        text("reason", "why, with the number and its threshold"),
        integer("generations_needed", "least draws for the target bias; NULL where more than 100 or unknown", "draws"),
    ],
    "Whether a single figure may be given; one row per benchmark.",
)

FRONTIER_MODELS = partitioned(
    SCHEMA,
    "frontier_models",
    ["cost_axis", "model_id"],
    [
        COST_AXIS,
        text("model_id", "model", nullable=False),
        flag("is_in_frontier", "whether it takes part on this axis", nullable=False),
        text("reason", "why not; NULL where it does"),
        real("quality", "its mean quality over its items that have a cost on this axis", "quality"),
        real("cost_usd", "its mean cost of an item (in the unit of cost_axis)", "USD"),
    ],
    "Who takes part in the frontier, by the frontier's own rules; one row per benchmark, cost_axis and model.",
)

FRONTIER_LATENCY_LIMITS = partitioned(
    SCHEMA,
    "frontier_latency_limits",
    ["latency_limit_s"],
    [
        real("latency_limit_s", "answers may take longer than this only now and then", "s", nullable=False),
        real("share_allowed", "share of the answers that may be late", "share", nullable=False),
        text("best_model_id", "best single model that keeps the limit; NULL where none does"),
        real("best_quality", "its mean quality", "quality"),
        real("best_share_late", "its share of late answers", "share"),
        real("naive_quality", "plain maximum over choices of model per item; NULL where no choice keeps it", "quality"),
        real("cross_fit_quality", "what choosing on half of the draws reaches on the others", "quality"),
        real("lower", "95 %, below the cross-fitted choice", "quality"),
        real("upper", "95 %, above the plain maximum", "quality"),
    ],
    "What a system reaches whose own 95 % quantile of latency is limited; one row per benchmark and limit.",
)

FRONTIER_TABLES: tuple[Table, ...] = (
    ORACLE_ESTIMATES,
    ORACLE_BIAS_CURVE,
    FRONTIER_POINTS,
    FRONTIER_HEADLINES,
    FRONTIER_DIAGNOSTICS,
    FRONTIER_MODELS,
    FRONTIER_LATENCY_LIMITS,
)
