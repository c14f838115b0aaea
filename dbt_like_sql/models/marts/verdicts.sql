with benchmarks as (

    select * from raw.benchmarks

),

coverage as (

    select * from marts.coverage

),

cost_audit as (

    select * from marts.cost_audit

),

judgments as (

    select * from staging.stg_judgments

),

order_bias as (

    select * from marts.order_bias

),

held_back as (

    select * from meta.held_back

),

said as (

    select
        *,
        'strengths' as asset
    from verdicts.strengths
    union all
    select
        *,
        'item_embeddings' as asset
    from verdicts.item_embeddings
    union all
    select
        *,
        'ecc' as asset
    from verdicts.ecc
    union all
    select
        *,
        'routing' as asset
    from verdicts.routing
    union all
    select
        *,
        'cold_start' as asset
    from verdicts.cold_start
    union all
    select
        *,
        'out_of_domain' as asset
    from verdicts.out_of_domain
    union all
    select
        *,
        'probe_policies' as asset
    from verdicts.probe_policies
    union all
    select
        *,
        'probe_sensitivity' as asset
    from verdicts.probe_sensitivity
    union all
    select
        *,
        'identification' as asset
    from verdicts.identification
    union all
    select
        *,
        'frontier' as asset
    from verdicts.frontier

),

-- a question nobody has answered, and the command that does
questions as (

    select
        listed.asset,
        listed.question,
        listed.stage
    from (
        values
        ('strengths', 'strengths', 'capabilities'),
        ('ecc', 'clusters', 'capabilities'),
        ('ecc', 'probe', 'capabilities'),
        ('routing', 'routing', 'capabilities'),
        ('cold_start', 'cold_start', 'capabilities --full'),
        ('out_of_domain', 'out_of_domain', 'capabilities --full'),
        ('probe_policies', 'probe_policies', 'capabilities --full'),
        ('probe_sensitivity', 'probe_sensitivity', 'capabilities --full'),
        ('identification', 'identification', 'identification'),
        ('frontier', 'frontier', 'frontier')
    ) as listed (asset, question, stage)

),

-- a name that a shell would take apart is quoted for it
named as (

    select
        benchmark_id,
        case
            when regexp_full_match(benchmark_id, '[A-Za-z0-9_.@/:+=-]+') then benchmark_id
            else '''' || replace(benchmark_id, '''', '''\''''') || ''''
        end as shell_name
    from benchmarks

),

unanswered as (

    select
        named.benchmark_id,
        questions.question,
        'Not computed; `capeval run --benchmark ' || named.shell_name || ' --only ' || questions.stage || '` does.'
            as sentence
    from named
    cross join questions
    left join said
        on
            named.benchmark_id = said.benchmark_id
            and questions.asset = said.asset
    where said.benchmark_id is null

),

coverage_totals as (

    select
        benchmark_id,
        count(*) as n_models,
        max(n_items) as n_items,
        sum(n_scored_items) as n_cells,
        sum(n_error) as n_error,
        sum(n_unscored) as n_unscored,
        sum(n_invalid) as n_invalid,
        sum(n_not_run) as n_not_run,
        min(policy) as policy,
        arg_min(model_id, (n_scored_items, model_id)) as sparsest_model_id,
        min(n_scored_items) as least_scored
    from coverage
    group by benchmark_id

),

vote_totals as (

    select
        benchmark_id,
        count(*) as n_votes,
        count(distinct item_id) as n_items,
        count(distinct coalesce(judge_id, '')) as n_judges
    from judgments
    group by benchmark_id

),

coverage_sentences as (

    select
        coverage_totals.benchmark_id,
        case
            when coverage_totals.n_cells > 0
                then
                    format(
                        -- counts stand after their noun: one reads as well as many
                        'Cells with a score: {:,} of {:,} ({:.1f} %; models x items: {:,} x {:,}). Errors: {:,}, '
                        || 'answers without a verdict: {:,}, unusable: {:,}, cells not run: {:,}.',
                        coverage_totals.n_cells::bigint,
                        coverage_totals.n_models * coverage_totals.n_items,
                        -- not all is never told as 100.0 %
                        least(
                            100 * coverage_totals.n_cells / (coverage_totals.n_models * coverage_totals.n_items),
                            case
                                when coverage_totals.n_cells < coverage_totals.n_models * coverage_totals.n_items
                                    then 99.9
                                else 100
                            end
                        ),
                        coverage_totals.n_models,
                        coverage_totals.n_items,
                        coverage_totals.n_error::bigint,
                        coverage_totals.n_unscored::bigint,
                        coverage_totals.n_invalid::bigint,
                        coverage_totals.n_not_run::bigint
                    )
                    || case
                        when coverage_totals.policy = 'wrong' then ' An error counts as the worst score.'
                        else ' Errors are left out of every mean.'
                    end
                    || case
                        when coverage_totals.least_scored < coverage_totals.n_items
                            then
                                format(
                                    ' Fewest: {} with {:,} of {:,} items.',
                                    coverage_totals.sparsest_model_id,
                                    coverage_totals.least_scored,
                                    coverage_totals.n_items
                                )
                        else ''
                    end
            when vote_totals.n_votes > 0 then format('Models: {:,}, no scores.', coverage_totals.n_models)
            else
                format(
                    'No cell has a score (models x items: {:,} x {:,}).',
                    coverage_totals.n_models,
                    coverage_totals.n_items
                )
        end
        || coalesce(
            format(
                ' Judgments of pairs: {:,} (items: {:,}, judges: {:,}).',
                vote_totals.n_votes,
                vote_totals.n_items,
                vote_totals.n_judges
            ),
            ''
        ) as sentence
    from coverage_totals
    left join vote_totals
        on coverage_totals.benchmark_id = vote_totals.benchmark_id

),

cost_totals as (

    select
        benchmark_id,
        sum(n_rows) as n_rows,
        sum(n_known) as n_known,
        sum(total_cost_usd order by model_id) as total_cost_usd,
        sum(n_zero) as n_zero,
        sum(n_negative) as n_negative,
        sum(n_mismatch) as n_mismatch,
        sum(n_cached) as n_cached,
        count(*) as n_models,
        count(*) filter (where n_known > 0) as n_priced_models,
        string_agg(model_id, ', ' order by model_id) filter (where has_constant_tokens or has_constant_cost)
            as constant_model_ids
    from cost_audit
    group by benchmark_id

),

cost_sentences as (

    select
        benchmark_id,
        case
            when n_rows = 0 then 'There are no answers, so there are no costs.'
            when n_known = 0 then 'No cost is known, so nothing can be said about cost.'
            else
                format(
                    'Costs are known of {:,} of {:,} answers ({:.1f} %) and {:,} of {:,} models; {} in all.',
                    n_known::bigint,
                    n_rows::bigint,
                    100 * n_known / n_rows,
                    n_priced_models,
                    n_models,
                    -- what is less than a cent is not told as nothing
                    case
                        when total_cost_usd > 0 and total_cost_usd < 0.1 then format('${:.6f}', total_cost_usd)
                        else format('${:,.2f}', total_cost_usd)
                    end
                )
        end
        || case when n_zero > 0 then format(' Costs reported as zero: {:,}.', n_zero::bigint) else '' end
        || case when n_negative > 0 then format(' Costs reported as negative: {:,}.', n_negative::bigint) else '' end
        || case
            when n_mismatch > 0
                then format(' Reported costs more than 1 % off tokens times price: {:,}.', n_mismatch::bigint)
            else ''
        end
        || case when n_cached > 0 then format(' Answers from a cache: {:,}.', n_cached::bigint) else '' end
        || coalesce(' Costs or token counts do not vary for ' || constant_model_ids || '.', '') as sentence
    from cost_totals

),

-- of the judge with the most votes; the mart holds all of them
order_sentences as (

    select
        vote_totals.benchmark_id,
        case
            when order_bias.benchmark_id is null
                then 'No judgment says which answer was shown first, so nothing is known of the effect of the order.'
            else
                case
                    when order_bias.n_pairs > 0
                        then
                            format(
                                'Verdicts that change with the order, of pairs judged in both: {:,} of {:,} '
                                || '({:.1f} %). ',
                                order_bias.n_flips,
                                order_bias.n_pairs,
                                100 * order_bias.flip_share
                            )
                    else ''
                end
                || format(
                    'The answer shown first takes {:.1f} % of the votes ({:.1f} to {:.1f} %), a tie counting half',
                    100 * order_bias.first_win_share,
                    100 * order_bias.lower,
                    100 * order_bias.upper
                )
                || case
                    when order_bias.is_biased then ': the order has an effect.'
                    else ': no effect of the order is shown.'
                end
                || case
                    when vote_totals.n_judges > 1
                        then
                            format(
                                ' So judges {}, who has the most votes of {:,} judges.',
                                coalesce(order_bias.judge_id, '(no name)'),
                                vote_totals.n_judges
                            )
                    else ''
                end
        end as sentence
    from vote_totals
    left join order_bias
        on vote_totals.benchmark_id = order_bias.benchmark_id
    qualify
        row_number() over (
            partition by vote_totals.benchmark_id
            order by order_bias.n_votes desc nulls last, order_bias.judge_id asc
        ) = 1

),

final as (

    select
        benchmark_id,
        question,
        sentence,
        source_table,
        is_skipped,
        not is_skipped as is_computed
    from said
    -- a name under which files were only refused is no benchmark
    where benchmark_id in (select benchmarks.benchmark_id from benchmarks)
    union all
    select
        benchmark_id,
        question,
        sentence,
        null as source_table,
        false as is_skipped,
        false as is_computed
    from unanswered
    union all
    select
        benchmark_id,
        'coverage' as question,
        sentence,
        'marts.coverage' as source_table,
        false as is_skipped,
        true as is_computed
    from coverage_sentences
    union all
    select
        benchmark_id,
        'costs' as question,
        sentence,
        'marts.cost_audit' as source_table,
        false as is_skipped,
        true as is_computed
    from cost_sentences
    union all
    select
        benchmark_id,
        'order_bias' as question,
        sentence,
        'marts.order_bias' as source_table,
        false as is_skipped,
        true as is_computed
    from order_sentences
    union all
    select
        benchmark_id,
        'publication' as question,
        sentence,
        'meta.held_back' as source_table,
        false as is_skipped,
        true as is_computed
    from held_back

)

select
    final.benchmark_id,
    final.question,
    final.sentence,
    final.source_table,
    final.is_skipped,
    final.is_computed,
    coverage_totals.policy as error_policy
from final
left join coverage_totals
    on final.benchmark_id = coverage_totals.benchmark_id
order by final.benchmark_id, final.question
