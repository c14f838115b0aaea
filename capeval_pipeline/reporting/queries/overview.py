"""What the index and the head of a page say: benchmarks, first sentences, verdicts, data versions."""

from capeval_pipeline.reporting.queries.query import Query

BENCHMARKS = Query(
    "benchmarks",
    """
select benchmark_id, name, version
from raw.benchmarks
order by benchmark_id
""",
)

FIRST_SENTENCES = Query(
    "first_sentences",
    """
select
    benchmarks.benchmark_id,
    count(distinct models.model_id) as n_models,
    max(states.data_version) as data_version,
    any_value(verdicts.sentence) as sentence
from raw.benchmarks as benchmarks
left join raw.models as models
    on benchmarks.benchmark_id = models.benchmark_id
left join meta.partition_state as states
    on benchmarks.benchmark_id = states.benchmark_id
left join marts.verdicts as verdicts
    on
        benchmarks.benchmark_id = verdicts.benchmark_id
        and verdicts.question = 'strengths'
group by benchmarks.benchmark_id
order by benchmarks.benchmark_id
""",
)

HEADER = Query(
    "header",
    """
select
    benchmarks.name,
    benchmarks.version,
    benchmarks.metric,
    benchmarks.score_low,
    benchmarks.score_high,
    benchmarks.higher_is_better,
    states.data_version,
    (select count(*) from raw.models where models.benchmark_id = $benchmark) as n_models,
    (select count(*) from raw.items where items.benchmark_id = $benchmark) as n_items,
    (select count(*) from raw.generations where generations.benchmark_id = $benchmark) as n_generations,
    (
        select count(*) from intermediate.item_scores
        where item_scores.benchmark_id = $benchmark and item_scores.quality is not null
    ) as n_scored_cells,
    (select count(*) from raw.judgments where judgments.benchmark_id = $benchmark) as n_judgments,
    (
        select max(data_versions.materialized_at) from meta.data_versions
        where data_versions.benchmark_id = $benchmark
    ) as made_at,
    (select max(pipeline_version.version) from meta.pipeline_version) as pipeline_version,
    (select min(coverage.policy) from marts.coverage where coverage.benchmark_id = $benchmark) as error_policy
from raw.benchmarks as benchmarks
left join meta.partition_state as states
    on benchmarks.benchmark_id = states.benchmark_id
where benchmarks.benchmark_id = $benchmark
""",
)

VERDICTS = Query(
    "verdicts",
    """
select question, sentence, source_table, is_computed
from marts.verdicts
where benchmark_id = $benchmark
order by question, sentence
""",
)

ERROR_POLICY = Query(
    "error_policy",
    """
select min(policy) as error_policy, sum(n_error) as n_error
from marts.coverage
where benchmark_id = $benchmark
""",
)

DATA_VERSIONS = Query(
    "data_versions",
    """
select
    schema || '.' || "table" as table_key,
    data_version,
    code_version,
    strftime(materialized_at, '%Y-%m-%d %H:%M') as made_at,
    seed
from meta.data_versions
where benchmark_id = $benchmark
order by table_key
""",
)
