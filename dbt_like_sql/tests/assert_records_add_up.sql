-- Of every file, records read = kept + rejected + duplicate.
select
    benchmark_id,
    file_id,
    path,
    n_read,
    n_kept,
    n_rejected,
    n_duplicate
from raw.files
where n_read != n_kept + n_rejected + n_duplicate
