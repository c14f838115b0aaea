-- The responsibilities of an item sum to 1.
select
    benchmark_id,
    method,
    item_id,
    sum(responsibility) as total
from estimates.cluster_responsibilities
group by benchmark_id, method, item_id
having not abs(sum(responsibility) - 1) <= 1e-6
