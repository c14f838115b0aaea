with runs as (

    select * from simulations.identification_runs

),

summary as (

    select * from simulations.identification_summary

),

classed as (

    select
        *,
        case
            when best_gap < 0.005 then '<.005'
            when best_gap < 0.01 then '.005–.01'
            when best_gap < 0.02 then '.01–.02'
            when best_gap < 0.04 then '.02–.04'
            else '≥.04'
        end as gap_class,
        pulls_to_certificate / (n_arms * n_items) as certificate_share
    from runs

),

-- the same seed has the same arms and orders under every policy, so certificates are compared pair by pair
paired as (

    select
        classed.benchmark_id,
        classed.gap_class,
        classed.policy,
        sum(classed.pulls_to_certificate) as pulls,
        sum(reference.pulls_to_certificate) as reference_pulls
    from classed
    inner join classed as reference
        on
            classed.benchmark_id = reference.benchmark_id
            and classed.seed = reference.seed
            and reference.policy = 'ucb_e'
    where classed.pulls_to_certificate is not null and reference.pulls_to_certificate is not null
    group by classed.benchmark_id, classed.gap_class, classed.policy

),

grouped as (

    select
        benchmark_id,
        gap_class,
        policy,
        count(*) as n_runs,
        min(best_gap) as smallest_gap,
        median(best_gap) as median_gap,
        avg(is_correct::int) as accuracy,
        median(pull_budget) as median_pull_budget,
        count(pulls_to_certificate) as n_certified,
        median(pulls_to_certificate) as median_pulls_to_certificate,
        avg(certificate_share order by seed) as mean_certificate_share
    from classed
    group by benchmark_id, gap_class, policy

),

final as (

    select
        grouped.*,
        1 - paired.pulls / nullif(paired.reference_pulls, 0) as certificate_saving_vs_ucb_e,
        summary.target_accuracy,
        summary.pulls_for_target,
        summary.pulls_lower,
        summary.pulls_upper,
        summary.saving_vs_ucb_e,
        summary.saving_lower,
        summary.saving_upper,
        summary.residual_variance_ratio
    from grouped
    left join paired
        on
            grouped.benchmark_id = paired.benchmark_id
            and grouped.gap_class = paired.gap_class
            and grouped.policy = paired.policy
    left join summary
        on
            grouped.benchmark_id = summary.benchmark_id
            and grouped.policy = summary.policy

)

select
    benchmark_id,
    gap_class,
    policy,
    n_runs,
    smallest_gap,
    median_gap,
    accuracy,
    median_pull_budget,
    n_certified,
    median_pulls_to_certificate,
    mean_certificate_share,
    certificate_saving_vs_ucb_e,
    target_accuracy,
    pulls_for_target,
    pulls_lower,
    pulls_upper,
    saving_vs_ucb_e,
    saving_lower,
    saving_upper,
    residual_variance_ratio
from final
order by benchmark_id, smallest_gap, gap_class, policy
