-- Lower limits are not above upper ones, and a mean score lies between its own.
-- (A rank may lie outside its limits where models were scored on different items: pairs are judged on shared ones.)
select
    benchmark_id,
    model_id,
    rank_lower,
    rank_upper,
    mean_score,
    score_lower,
    score_upper,
    lower,
    upper
from estimates.strengths
where
    rank_lower > rank_upper
    or mean_score < score_lower - 1e-9
    or mean_score > score_upper + 1e-9
    or lower > upper
