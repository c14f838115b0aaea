-- A refused file keeps no record and, while no newer content of its path replaces it, says why.
with files as (

    select * from raw.files

),

reasons as (

    select distinct
        benchmark_id,
        file_id
    from raw.rejections
    where severity = 'rejected'

)

select
    files.benchmark_id,
    files.file_id,
    files.path,
    files.n_kept
from files
left join reasons
    on
        files.benchmark_id = reasons.benchmark_id
        and files.file_id = reasons.file_id
where
    files.status = 'refused'
    and (files.n_kept != 0 or (reasons.file_id is null and files.replaced_by_file_id is null))
