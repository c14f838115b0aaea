-- Every gain of the clusterings is 100 (1 − nll / nll_global) of its own row.
with evaluations as (

    select
        benchmark_id,
        method,
        inference,
        pair_subset,
        'ecc_evaluation' as evaluation,
        nll,
        nll_global,
        gain_percent
    from estimates.ecc_evaluation
    union all
    select
        benchmark_id,
        method,
        inference,
        pair_subset,
        'ood_evaluation' as evaluation,
        nll,
        nll_global,
        gain_percent
    from estimates.ood_evaluation

)

select
    benchmark_id,
    evaluation,
    method,
    inference,
    pair_subset,
    nll,
    nll_global,
    gain_percent
from evaluations
where abs(gain_percent - 100 * (1 - nll / nll_global)) > 1e-6
