"""Layer `simulations`: replays of adaptive identification on the stored answers."""

from capeval_pipeline.storage.tables.contract import Table, flag, integer, partitioned, real, required, text

SCHEMA = "simulations"

IDENTIFICATION_RUNS = partitioned(
    SCHEMA,
    "identification_runs",
    ["policy", "seed"],
    [
        text("policy", "allocation policy", nullable=False),
        integer("seed", "seed of the replay; the same arms and orders for every policy", nullable=False),
        *required(
            integer("n_arms", "models to choose from", "models"),
            integer("n_items", "items of the block", "items"),
            real("best_gap", "best minus second mean", "quality"),
            integer("pull_budget", "scored items the run may take", "pulls"),
        ),
        text("recommended_model_id", "model named at the end (in race: the certified one)"),
        flag("is_correct", "whether its mean equals the maximum"),
        integer("pulls_to_certificate", "pulls until the certificate; NULL when there is none", "pulls"),
    ],
    "Replays; one row per benchmark, policy and seed.",
)

IDENTIFICATION_CURVES = partitioned(
    SCHEMA,
    "identification_curves",
    ["policy", "pull_budget"],
    [
        text("policy", "allocation policy", nullable=False),
        integer("pull_budget", "scored items spent", "pulls", nullable=False),
        real("accuracy", "share of replays that name a best model", "share"),
        real("lower", "Wilson limit, 95 %", "share"),
        real("upper", "Wilson limit, 95 %", "share"),
        integer("n_runs", "replays", "replays", nullable=False),
    ],
    "Share of replays that name a best model; one row per benchmark, policy and pull budget.",
)

IDENTIFICATION_SUMMARY = partitioned(
    SCHEMA,
    "identification_summary",
    ["policy"],
    [
        text("policy", "allocation policy", nullable=False),
        real("pulls_for_target", "pulls until accuracy reaches target_accuracy; NULL when never", "pulls"),
        real("target_accuracy", "accuracy asked for", "share"),
        real("saving_vs_ucb_e", "1 − pulls_for_target over that of ucb_e", "share"),
        real("coverage_simultaneous", "share of replays without any violation of an interval", "share"),
        real("coverage_lower", "Wilson lower limit of coverage_simultaneous", "share"),
        real("mean_interval_width", "mean width at 200 answers of an arm, or half the items", "quality"),
        real("bias_z", "mean error of single steps over its standard error; NULL without a single-step estimate"),
        real("seconds_per_run", "median time of one replay on one thread", "s"),
        integer("n_runs", "replays", "replays", nullable=False),
        integer("n_training_models", "models the predictor was fitted on", "models"),
        integer("rank", "factors of the predictor"),
        text("bonus", "exploration bonus: count or variance"),
        text("interval", "reported interval"),
        real("mean_error", "1 − accuracy averaged over the budgets", "share"),
        real("pulls_lower", "bootstrap over seeds, 90 %", "pulls"),
        real("pulls_upper", "bootstrap over seeds, 90 %", "pulls"),
        real("saving_lower", "paired bootstrap over seeds, 90 %", "share"),
        real("saving_upper", "paired bootstrap over seeds, 90 %", "share"),
        real("residual_variance_ratio", "variance of score minus prediction over variance of score"),
        integer("n_certified", "replays that ended with a certificate", "replays"),
        integer("n_wrong_certificates", "certificates that named a model that is not best", "replays"),
        real("pulls_for_90", "pulls until accuracy reaches 90 %; NULL when never", "pulls"),
        real("pulls_90_lower", "bootstrap over seeds, 90 %", "pulls"),
        real("pulls_90_upper", "bootstrap over seeds, 90 %", "pulls"),
        real("pairing_ratio", "variance of score differences of the best models over the sum of their variances"),
    ],
    "What a policy needs and whether its intervals hold; one row per benchmark and policy.",
)

IDENTIFICATION_INTERVALS = partitioned(
    SCHEMA,
    "identification_intervals",
    ["policy", "interval", "n_answers"],
    [
        text("policy", "allocation policy", nullable=False),
        text("interval", "betting, empirical_bernstein, freedman_plugin or freedman_oracle", nullable=False),
        integer("n_answers", "answers of the arm", "answers", nullable=False),
        real("mean_width", "mean width at that many answers", "quality"),
        real("miss_any_time", "share of arm replays whose interval missed at any count so far", "share"),
        integer("n_arm_runs", "arms times replays that got there", nullable=False),
    ],
    "Width and misses of intervals; one row per benchmark, policy, interval and number of answers.",
)

IDENTIFICATION_GAP_CLASSES = partitioned(
    SCHEMA,
    "identification_gap_classes",
    ["gap_class", "policy"],
    [
        text("gap_class", "class of the gap between the two best models of a subset", nullable=False),
        text("policy", "allocation policy", nullable=False),
        integer("n_runs", "replays, each on a subset of its own", "replays", nullable=False),
        integer("n_arms", "models of a subset", "models", nullable=False),
        integer("n_items", "items of the block", "items", nullable=False),
        real("smallest_gap", "smallest gap of the replays", "quality"),
        real("median_gap", "median gap of the replays", "quality"),
        real("mean_error", "1 − accuracy averaged over the budgets", "share"),
        real("target_accuracy", "accuracy asked for", "share"),
        real("pulls_for_target", "pulls until accuracy reaches target_accuracy; NULL when never", "pulls"),
        real("pulls_lower", "bootstrap over seeds, 90 %", "pulls"),
        real("pulls_upper", "bootstrap over seeds, 90 %", "pulls"),
        real("saving_vs_ucb_e", "1 − pulls_for_target over that of ucb_e", "share"),
        real("saving_lower", "paired bootstrap over seeds, 90 %", "share"),
        real("saving_upper", "paired bootstrap over seeds, 90 %", "share"),
        integer("n_certified", "replays that ended with a certificate", "replays"),
        integer("n_wrong_certificates", "certificates that named a model that is not best", "replays"),
        real("median_pulls_to_certificate", "median over the replays that have one", "pulls"),
        real("mean_certificate_share", "mean share of a subset's cells scored until the certificate", "share"),
    ],
    "Difficulty by gap on resampled subsets of the models; one row per benchmark, gap_class and policy.",
)

SIMULATION_TABLES: tuple[Table, ...] = (
    IDENTIFICATION_RUNS,
    IDENTIFICATION_CURVES,
    IDENTIFICATION_SUMMARY,
    IDENTIFICATION_INTERVALS,
    IDENTIFICATION_GAP_CLASSES,
)
