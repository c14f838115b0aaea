-- Every score lies in the range its benchmark declares, and there is one exactly where the status is ok.
with generations as (

    select * from raw.generations

),

benchmarks as (

    select * from raw.benchmarks

)

select
    generations.benchmark_id,
    generations.item_id,
    generations.model_id,
    generations.generation_id,
    generations.status,
    generations.score
from generations
left join benchmarks
    on generations.benchmark_id = benchmarks.benchmark_id
where
    generations.score < benchmarks.score_low
    or generations.score > benchmarks.score_high
    or not isfinite(generations.score)
    or (generations.score is not null) != (generations.status = 'ok')
