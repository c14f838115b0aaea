"""Studies on synthetic worlds, the same for every benchmark."""

from capeval_pipeline.reporting.queries.query import Query

BIAS_DECAY = Query(
    "oracle_bias_decay",
    """
select world, n_models, n_generations, true_oracle, naive, bias, local_exponent
from studies.oracle_bias_decay
order by world, n_models, n_generations
""",
)

DEBIASER_COMPARISON = Query(
    "debiaser_comparison",
    """
select world, n_models, n_generations, estimator, bias, rmse, coverage
from studies.debiaser_comparison
order by world, n_generations, estimator
""",
)

INTERVAL_COVERAGE = Query(
    "interval_coverage",
    """
select
    world,
    n_items,
    n_models,
    n_generations,
    "interval",
    coverage,
    -- Wilson's 95 % limits: what a few benchmarks can say of the coverage
    greatest(0, (coverage + 1.9208 / n_seeds - spread) / (1 + 3.8416 / n_seeds)) as coverage_lower,
    least(1, (coverage + 1.9208 / n_seeds + spread) / (1 + 3.8416 / n_seeds)) as coverage_upper,
    mean_width,
    share_point,
    n_seeds
from (
    select *, 1.96 * sqrt(coverage * (1 - coverage) / n_seeds + 0.9604 / n_seeds ** 2) as spread
    from studies.interval_coverage
) as measured
order by "interval", world, n_generations
""",
)

TOPIC_ENTROPY = Query(
    "topic_entropy",
    """
select world, mixture, entropy, oracle_gap
from studies.topic_entropy
order by world, entropy, mixture
""",
)

STUDY_VERSIONS = Query(
    "study_versions",
    """
select "table", data_version
from meta.data_versions
where "schema" = 'studies'
order by "table"
""",
)
