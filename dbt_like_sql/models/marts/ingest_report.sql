with files as (

    select * from raw.files

),

rejections as (

    select * from raw.rejections

),

counted as (

    select
        file_id,
        min(path) as path,
        min(format) as format,
        min(status) as status,
        sum(n_read)::bigint as n_read,
        sum(n_kept)::bigint as n_kept,
        sum(n_rejected)::bigint as n_rejected,
        sum(n_duplicate)::bigint as n_duplicate,
        max(claimed_items) as claimed_items,
        list(benchmark_id order by benchmark_id) as benchmark_ids,
        min(replaced_by_file_id) as replaced_by_file_id,
        max(ingested_at) as ingested_at
    from files
    group by file_id

),

-- line 2 comes before line 10
first_rejections as (

    select
        file_id,
        message as first_rejection
    from rejections
    where severity = 'rejected'
    qualify row_number() over (partition by file_id order by length(location), location, reason) = 1

),

reason_counts as (

    select
        file_id,
        reason,
        count(*) as n_warnings
    from rejections
    where severity = 'warning'
    group by file_id, reason

),

warnings as (

    select
        file_id,
        string_agg(reason || ': ' || n_warnings, ', ' order by reason) as warnings
    from reason_counts
    group by file_id

),

final as (

    select
        counted.*,
        first_rejections.first_rejection,
        warnings.warnings
    from counted
    left join first_rejections
        on counted.file_id = first_rejections.file_id
    left join warnings
        on counted.file_id = warnings.file_id

)

select
    file_id,
    path,
    format,
    status,
    n_read,
    n_kept,
    n_rejected,
    n_duplicate,
    first_rejection,
    warnings,
    claimed_items,
    benchmark_ids,
    replaced_by_file_id,
    ingested_at
from final
order by path, ingested_at, file_id
