"""Layer `estimates`, capabilities: strengths, clusters of items and how well they predict. The frontier's are apart."""

from capeval_pipeline.storage.tables.contract import (
    CLUSTER_ID,
    ITEM_ID,
    MODEL_A_ID,
    MODEL_B_ID,
    MODEL_ID,
    Column,
    Table,
    flag,
    integer,
    partitioned,
    real,
    text,
    texts,
    vector,
)

SCHEMA = "estimates"

METHOD = text("method", "ecc, ecc_shrunk, emb_only, comp_only, human_labels, linear or blend", nullable=False)
INFERENCE = text("inference", "emb (before any answer), probe, emb_probe or emb_probe_calibrated", nullable=False)
PAIR_SUBSET = text("pair_subset", "all, shared (contains a probe model) or disjoint", nullable=False)
N_PAIRS = integer("n_pairs", "evaluation pairs", "pairs", nullable=False)


def gain_columns() -> tuple[Column, ...]:
    """Loss, reference loss and the gain that follows; NULL where there are too few pairs to say."""
    return (
        real("nll", "mean negative log-likelihood of the evaluation pairs", "nat"),
        real("nll_global", "the same of one Bradley–Terry ranking", "nat"),
        real("gain_percent", "100 (1 − nll / nll_global)", "percent"),
        real("gain_lower", "95 %, resampling items", "percent"),
        real("gain_upper", "95 %, resampling items", "percent"),
    )


ITEM_EMBEDDINGS = partitioned(
    SCHEMA,
    "item_embeddings",
    ["item_id"],
    [
        ITEM_ID,
        text("embedder", "name and version of the embedder", nullable=False),
        vector("embedding", "vector of the item, length 1 or all 0", nullable=False),
    ],
    "Vectors of the items' texts; one row per benchmark and item.",
)

STRENGTHS = partitioned(
    SCHEMA,
    "strengths",
    ["model_id"],
    [
        MODEL_ID,
        real("mean_score", "mean score over items, as given (judgments only: mean outcome)", "score"),
        real("score_lower", "95 % limit of mean_score", "score"),
        real("score_upper", "95 % limit of mean_score", "score"),
        real("strength", "Bradley–Terry strength, centred at 0", "logit"),
        real("lower", "95 %, resampling items; NULL where open", "logit"),
        real("upper", "95 %, resampling items; NULL where open", "logit"),
        integer("rank", "1 = best", nullable=False),
        integer("rank_lower", "1 + number of models significantly better"),
        integer("rank_upper", "number of models − number significantly worse"),
        integer("tie_group", "1 = first group of models that cannot be told from its first one"),
        integer("n_items", "items with a score of the model", "items", nullable=False),
        integer("component_id", "connected part of the graph of compared models, 0 = largest", nullable=False),
        flag("is_separated", "won or lost every comparison", nullable=False),
    ],
    "Strength and mean score of each model; one row per benchmark and model.",
)

MODEL_PAIRS = partitioned(
    SCHEMA,
    "model_pairs",
    ["model_a_id", "model_b_id"],
    [
        MODEL_A_ID,
        MODEL_B_ID,
        integer("n_shared_items", "items both have a score on", "items", nullable=False),
        real("difference", "mean score of a − b on shared items, as given (judgments only: of strengths)", "score"),
        real("lower", "95 % limit of difference", "score"),
        real("upper", "95 % limit of difference", "score"),
        real("p_value", "two-sided, of no difference", "share"),
        real("p_adjusted", "Holm within the benchmark", "share"),
        text("verdict", "a_better, b_better or cannot_tell", nullable=False),
    ],
    "Which model is better; one row per benchmark and pair of models.",
)

ECC_FITS = partitioned(
    SCHEMA,
    "ecc_fits",
    ["method"],
    [
        METHOD,
        integer("n_clusters", "clusters of items"),
        real("embedding_weight", "weight of embeddings against comparisons"),
        real("temperature", "temperature of the responsibilities"),
        real("ridge", "ridge on strengths"),
        text("shrinkage", "what strengths are shrunk to: zero or global"),
        integer("n_restarts", "random starts"),
        real("objective", "lowest free energy"),
        real("objective_spread", "highest − lowest free energy over the starts"),
        integer("n_passes", "passes of the kept start"),
        text("stop_reason", "which stopping rule was met"),
        flag("converged", "whether one was met"),
        integer("seed", "seed of the starts"),
        real("fit_seconds", "time the fit took", "s"),
        real("category_ari", "adjusted Rand index with the categories; NULL without categories"),
        integer("n_items", "items fitted", "items"),
        integer("n_dropped_all_tied", "items on which every pair of models ties", "items"),
        integer("n_dropped_one_pair", "items with a single pair that does not tie", "items"),
    ],
    "Fits of the clusterings and their references; one row per benchmark and method.",
)

ECC_GRID = partitioned(
    SCHEMA,
    "ecc_grid",
    ["n_clusters", "ridge", "embedding_weight"],
    [
        integer("n_clusters", "clusters of items", nullable=False),
        real("ridge", "ridge on strengths", nullable=False),
        real("embedding_weight", "weight of embeddings against comparisons", nullable=False),
        real("heldout_nll", "mean loss of held-out items", "nat"),
        real("heldout_nll_se", "standard error of heldout_nll", "nat"),
        flag("is_chosen", "whether ecc_shrunk was fitted so", nullable=False),
    ],
    "What the held-out choice of ecc_shrunk tried; one row per benchmark, n_clusters, ridge and embedding_weight.",
)

CLUSTER_RESPONSIBILITIES = partitioned(
    SCHEMA,
    "cluster_responsibilities",
    ["method", "item_id", "cluster_id"],
    [
        METHOD,
        ITEM_ID,
        CLUSTER_ID,
        real("responsibility", "responsibility of the cluster for the item; rows of an item sum to 1", "share"),
        text("basis", "fitted (training items) or embedding (all others)", nullable=False),
    ],
    "Which cluster an item belongs to; one row per benchmark, method, item and cluster.",
)

CLUSTER_STRENGTHS = partitioned(
    SCHEMA,
    "cluster_strengths",
    ["method", "cluster_id", "model_id"],
    [
        METHOD,
        CLUSTER_ID,
        MODEL_ID,
        real("strength", "strength in the cluster", "logit"),
        real("lower", "95 %, resampling items", "logit"),
        real("upper", "95 %, resampling items", "logit"),
        flag("is_compared", "false: no comparison in the cluster, the prior only", nullable=False),
    ],
    "Profiles; one row per benchmark, method, cluster and model.",
)

CLUSTERS = partitioned(
    SCHEMA,
    "clusters",
    ["method", "cluster_id"],
    [
        METHOD,
        CLUSTER_ID,
        real("weight", "share of items", "share", nullable=False),
        text("label", "first terms, else the category, else a number"),
        texts("top_item_ids", "items that stand for the cluster"),
        texts("top_categories", "categories by lift"),
        texts("top_terms", "terms more frequent inside than outside"),
        text("best_model_id", "strongest model in the cluster; NULL for an empty cluster"),
    ],
    "Clusters of items; one row per benchmark, method and cluster.",
)

CLUSTER_CATEGORIES = partitioned(
    SCHEMA,
    "cluster_categories",
    ["method", "cluster_id", "category"],
    [
        METHOD,
        CLUSTER_ID,
        text("category", "category the files give", nullable=False),
        real("share_of_cluster", "share of the cluster that is of the category", "share"),
        real("share_of_category", "share of the category that is in the cluster", "share"),
        real("lift", "share_of_cluster over the category's share of all items"),
    ],
    "Clusters against given categories; one row per benchmark, method, cluster and category.",
)

ECC_EVALUATION = partitioned(
    SCHEMA,
    "ecc_evaluation",
    ["method", "inference", "pair_subset"],
    [
        text("method", "as in ecc_fits, and carry_over_control (no clustering)", nullable=False),
        INFERENCE,
        PAIR_SUBSET,
        N_PAIRS,
        *gain_columns(),
    ],
    "Gain over one ranking on test items; one row per benchmark, method, inference and pair_subset.",
)

PROBE_SENSITIVITY = partitioned(
    SCHEMA,
    "probe_sensitivity",
    ["method", "draw", "pair_subset"],
    [
        METHOD,
        integer("draw", "which of the sampled pairs is the probe", nullable=False),
        PAIR_SUBSET,
        N_PAIRS,
        real("gain_percent", "gain over one ranking", "percent"),
    ],
    "Gain by draw of the probe; one row per benchmark, method, draw and pair_subset.",
)

ROUTING_EVALUATION = partitioned(
    SCHEMA,
    "routing_evaluation",
    ["router", "probe_policy"],
    [
        text(
            "router",
            "random, global_best, emb_only, comp_only, ecc, ecc_shrunk, linear, blend, oracle or probe_winner",
            nullable=False,
        ),
        text("probe_policy", "none, paper, random, eig or fixed", nullable=False),
        integer("n_items", "test items without a missing cell", "items", nullable=False),
        real("mean_score", "mean quality of the chosen models", "quality"),
        real("mean_cost_usd", "mean cost, the probe's calls included; NULL if any is unknown", "USD"),
        real("share_of_oracle_gain", "(mean_score − global_best) / (oracle − global_best); NULL for 0 / 0", "share"),
        real("score_lower", "95 %, resampling items", "quality"),
        real("score_upper", "95 %, resampling items", "quality"),
        real("share_lower", "95 %, resampling items", "share"),
        real("share_upper", "95 %, resampling items", "share"),
    ],
    "Routers on test items; one row per benchmark, router and probe_policy.",
)

COLD_START_EVALUATION = partitioned(
    SCHEMA,
    "cold_start_evaluation",
    ["held_out_model_id", "method", "pull_budget"],
    [
        text("held_out_model_id", "model treated as new", nullable=False),
        text("method", "global, authors_like, hierarchical or carry_over_control", nullable=False),
        integer("pull_budget", "comparisons of the new model that do not tie", "comparisons", nullable=False),
        real("gain_percent", "gain on all its pairs on test items", "percent"),
        real("gain_percent_unseen", "gain on pairs whose other model has no vote on the item", "percent"),
        integer("n_calls", "calls it took, ties included", "calls"),
        real("rank_error", "mean distance to the rank from all items", "ranks"),
    ],
    "A new model from few comparisons; one row per benchmark, held out model, method and pull budget.",
)

PROBE_POLICIES = partitioned(
    SCHEMA,
    "probe_policies",
    ["policy", "pair_subset"],
    [
        text("policy", "which pair to probe: paper, random, eig or fixed", nullable=False),
        PAIR_SUBSET,
        real("informative_share", "share of probes that did not tie", "share"),
        N_PAIRS,
        real("gain_percent", "gain over one ranking", "percent"),
        real("lower", "95 %, resampling items", "percent"),
        real("upper", "95 %, resampling items", "percent"),
    ],
    "Ways to choose the probe; one row per benchmark, policy and pair_subset.",
)

OOD_EVALUATION = partitioned(
    SCHEMA,
    "ood_evaluation",
    ["test_categories", "method", "n_clusters", "inference", "pair_subset"],
    [
        text("test_categories", "categories that were tested and not fitted, joined by ', '", nullable=False),
        text("method", "as in ecc_evaluation", nullable=False),
        integer("n_clusters", "clusters of items; NULL for methods without clusters"),
        INFERENCE,
        PAIR_SUBSET,
        N_PAIRS,
        *gain_columns(),
    ],
    "Gain on categories left out of the fit; one row per benchmark, test categories, method, n_clusters, inference "
    "and pair_subset.",
)

CAPABILITY_TABLES: tuple[Table, ...] = (
    ITEM_EMBEDDINGS,
    STRENGTHS,
    MODEL_PAIRS,
    ECC_FITS,
    ECC_GRID,
    CLUSTER_RESPONSIBILITIES,
    CLUSTER_STRENGTHS,
    CLUSTERS,
    CLUSTER_CATEGORIES,
    ECC_EVALUATION,
    PROBE_SENSITIVITY,
    ROUTING_EVALUATION,
    COLD_START_EVALUATION,
    PROBE_POLICIES,
    OOD_EVALUATION,
)
