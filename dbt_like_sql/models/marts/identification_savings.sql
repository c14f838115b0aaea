with classes as (

    select * from simulations.identification_gap_classes

),

summary as (

    select * from simulations.identification_summary

),

-- replays of the study itself, whose arms are the benchmark's own
study_runs as (

    select
        benchmark_id,
        policy,
        case
            when best_gap < 0.005 then '<.005'
            when best_gap < 0.01 then '.005–.01'
            when best_gap < 0.02 then '.01–.02'
            when best_gap < 0.04 then '.02–.04'
            else '≥.04'
        end as gap_class,
        count(*) as n_study_runs
    from simulations.identification_runs
    group by all

),

final as (

    select
        classes.*,
        coalesce(study_runs.n_study_runs, 0) as n_study_runs,
        summary.residual_variance_ratio
    from classes
    left join study_runs
        on
            classes.benchmark_id = study_runs.benchmark_id
            and classes.policy = study_runs.policy
            and classes.gap_class = study_runs.gap_class
    left join summary
        on
            classes.benchmark_id = summary.benchmark_id
            and classes.policy = summary.policy

)

select
    benchmark_id,
    gap_class,
    policy,
    n_runs,
    n_study_runs,
    n_arms,
    n_items,
    smallest_gap,
    median_gap,
    mean_error,
    target_accuracy,
    pulls_for_target,
    pulls_lower,
    pulls_upper,
    saving_vs_ucb_e,
    saving_lower,
    saving_upper,
    n_certified,
    n_wrong_certificates,
    median_pulls_to_certificate,
    mean_certificate_share,
    residual_variance_ratio
from final
order by benchmark_id, smallest_gap, gap_class, policy
