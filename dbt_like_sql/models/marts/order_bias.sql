-- raw judgments, not the staged ones: there the two orders of a pair are one vote already
with judgments as (

    select * from raw.judgments

),

-- every pair in text order; the vote as seen from its first model, and from the answer shown first
votes as (

    select
        benchmark_id,
        item_id,
        judge_id,
        draw,
        position,
        file_id,
        least(model_a_id, model_b_id) as model_a_id,
        greatest(model_a_id, model_b_id) as model_b_id,
        case when model_a_id > model_b_id then 1 - position else position end as pair_position,
        case when model_a_id > model_b_id then 1 - outcome else outcome end as pair_outcome,
        case when position = 1 then 1 - outcome else outcome end as first_shown_won
    from judgments
    where
        model_a_id != model_b_id
        and position in (0, 1)

),

-- as in staging: the k-th presentation in one order and the k-th in the other belong together
numbered as (

    select
        *,
        row_number() over (
            partition by benchmark_id, judge_id, item_id, model_a_id, model_b_id, pair_position
            order by draw, pair_outcome, file_id
        ) as presentation
    from votes

),

both_orders as (

    select
        benchmark_id,
        judge_id,
        min(sign(pair_outcome - 0.5)) != max(sign(pair_outcome - 0.5)) as is_flip,
        min(sign(pair_outcome - 0.5)) = -1 and max(sign(pair_outcome - 0.5)) = 1 as is_reversal
    from numbered
    group by benchmark_id, judge_id, item_id, model_a_id, model_b_id, presentation
    having count(*) = 2

),

flips as (

    select
        benchmark_id,
        judge_id,
        count(*) as n_pairs,
        count(*) filter (where is_flip) as n_flips,
        count(*) filter (where is_reversal) as n_reversals
    from both_orders
    group by benchmark_id, judge_id

),

-- votes on one item are not independent of each other
items as (

    select
        benchmark_id,
        judge_id,
        item_id,
        count(*) as n_votes,
        sum(first_shown_won order by first_shown_won) as n_won
    from votes
    group by benchmark_id, judge_id, item_id

),

shares as (

    select
        benchmark_id,
        judge_id,
        sum(n_votes)::bigint as n_votes,
        count(*) as n_items,
        sum(n_won order by item_id) / sum(n_votes) as share
    from items
    group by benchmark_id, judge_id

),

-- variance of the share as a ratio of sums over items
spreads as (

    select
        items.benchmark_id,
        items.judge_id,
        sum(pow(items.n_won - shares.share * items.n_votes, 2) order by items.item_id)
        / pow(any_value(shares.n_votes), 2)
        * any_value(shares.n_items) / nullif(any_value(shares.n_items) - 1, 0) as variance
    from items
    inner join shares
        on
            items.benchmark_id = shares.benchmark_id
            and items.judge_id is not distinct from shares.judge_id
    group by items.benchmark_id, items.judge_id

),

-- the number of independent votes that would have this variance: at most the votes there are; at least the items,
-- where no item differs from another
sized as (

    select
        shares.*,
        case
            when spreads.variance > 0
                then least(shares.n_votes, shares.share * (1 - shares.share) / spreads.variance)
            else shares.n_items
        end as n_effective
    from shares
    inner join spreads
        on
            shares.benchmark_id = spreads.benchmark_id
            and shares.judge_id is not distinct from spreads.judge_id

),

-- Wilson's interval at 95 %
intervals as (

    select
        *,
        (share + pow(1.959964, 2) / (2 * n_effective)) / (1 + pow(1.959964, 2) / n_effective) as middle,
        1.959964
        * sqrt(share * (1 - share) / n_effective + pow(1.959964, 2) / (4 * pow(n_effective, 2)))
        / (1 + pow(1.959964, 2) / n_effective) as half_width
    from sized

),

final as (

    select
        intervals.benchmark_id,
        intervals.judge_id,
        intervals.n_votes,
        intervals.n_items,
        coalesce(flips.n_pairs, 0) as n_pairs,
        coalesce(flips.n_flips, 0) as n_flips,
        coalesce(flips.n_reversals, 0) as n_reversals,
        flips.n_flips / flips.n_pairs as flip_share,
        intervals.share as first_win_share,
        greatest(0, intervals.middle - intervals.half_width) as lower,
        least(1, intervals.middle + intervals.half_width) as upper
    from intervals
    left join flips
        on
            intervals.benchmark_id = flips.benchmark_id
            and intervals.judge_id is not distinct from flips.judge_id

)

select
    benchmark_id,
    judge_id,
    n_votes,
    n_items,
    n_pairs,
    n_flips,
    n_reversals,
    flip_share,
    first_win_share,
    lower,
    upper,
    lower > 0.5 or upper < 0.5 as is_biased
from final
order by benchmark_id, judge_id
