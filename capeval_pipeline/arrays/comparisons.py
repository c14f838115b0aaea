"""Sampled comparisons and judgments <-> votes as index arrays; splits <-> item positions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capeval_pipeline.arrays.score_matrix import positions_of
from capeval_pipeline.methods.ecc.votes import Votes

N_FOLDS = 5
FOLD_DIGITS = slice(16, 32)
"""Hex digits of split_key that place an item in a fold; train against test is decided by the leading 15."""


def encode_votes(comparisons: pd.DataFrame, items: Sequence[str], models: Sequence[str]) -> Votes:
    """Rows of intermediate.comparisons as votes, ordered by item and sample_rank.

    items, models : labels whose positions the votes hold. Raises ValueError for an unknown label or an outcome other
    than 0 and 1.
    """
    item = positions_of(comparisons["item_id"].to_numpy(dtype=object), items)
    first = positions_of(comparisons["model_a_id"].to_numpy(dtype=object), models)
    second = positions_of(comparisons["model_b_id"].to_numpy(dtype=object), models)
    outcome = comparisons["outcome"].to_numpy(dtype=np.float64)
    rank = comparisons["sample_rank"].to_numpy(dtype=np.int64)
    for name, found in (("item_id", item), ("model_a_id", first), ("model_b_id", second)):
        if (found < 0).any():
            label = comparisons[name].iloc[int(np.flatnonzero(found < 0)[0])]
            raise ValueError(f"comparisons: unknown {name} {label!r}")
    if not np.isin(outcome, (0.0, 1.0)).all():
        raise ValueError("comparisons: outcomes other than 0 and 1; expected decided pairs only")
    order = np.lexsort((second, first, rank, item))
    a_won = outcome == 1.0
    return Votes(
        item=item[order],
        winner=np.where(a_won, first, second)[order],
        loser=np.where(a_won, second, first)[order],
        sample_rank=rank[order],
        n_items=len(items),
        n_models=len(models),
    )


@dataclass(frozen=True)
class Splits:
    """is_test : (n_items,); fold : (n_items,) 0 … 4; key_order : (n_items,) positions in the order of their keys."""

    is_test: npt.NDArray[np.bool_]
    fold: npt.NDArray[np.int64]
    key_order: npt.NDArray[np.int64]


def encode_splits(item_splits: pd.DataFrame, items: Sequence[str]) -> Splits:
    """Splits of the items in the given order; raises ValueError for an item without a split."""
    position = positions_of(np.asarray(items, dtype=object), item_splits["item_id"].to_list())
    if (position < 0).any():
        raise ValueError(f"item_splits: no row for item_id={items[int(np.flatnonzero(position < 0)[0])]!r}")
    is_test = (item_splits["split"] == "test").to_numpy(dtype=bool)[position]
    keys = item_splits["split_key"].to_numpy(dtype=object)[position]
    fold = np.array([int(str(k)[FOLD_DIGITS], 16) % N_FOLDS for k in keys], dtype=np.int64)
    # Equal texts have equal keys: their ids decide.
    key_order = np.lexsort((np.arange(len(items)), np.asarray([str(k) for k in keys])))
    return Splits(is_test=is_test, fold=fold, key_order=key_order.astype(np.int64))


@dataclass(frozen=True)
class JudgedVotes:
    """Judgments after both presentations of a pair by one judge became one vote.

    item, winner, loser : (n_votes,) decided votes, ordered by item
    mean_outcome : (n_models,) mean outcome over the model's judgments, a tie one half
    outcomes : (n_items, n_models) the same an item, NaN where not judged
    n_judgments : (n_items, n_models)
    n_shared : (n_models, n_models) items with a judgment of the pair
    agreement : share of repeated votes on one item and pair that agree, NaN without repeats
    """

    item: npt.NDArray[np.int64]
    winner: npt.NDArray[np.int64]
    loser: npt.NDArray[np.int64]
    mean_outcome: npt.NDArray[np.float64]
    outcome_sums: npt.NDArray[np.float64]
    n_judgments: npt.NDArray[np.float64]
    n_shared: npt.NDArray[np.float64]
    agreement: float


def encode_judgments(judgments: pd.DataFrame, items: Sequence[str], models: Sequence[str]) -> JudgedVotes:
    """Rows of staging.stg_judgments as votes (ecc.md, section 1): positions that disagree make a tie.

    A vote is of one judge and draw; an outcome above one half is the first model's, below it the second's.
    """
    frame = pd.DataFrame(
        {
            "item": positions_of(judgments["item_id"].to_numpy(dtype=object), items),
            "a": positions_of(judgments["model_a_id"].to_numpy(dtype=object), models),
            "b": positions_of(judgments["model_b_id"].to_numpy(dtype=object), models),
            "judge": judgments["judge_id"].astype("object").fillna("").to_numpy(),
            "draw": judgments["draw"].to_numpy(),
            "outcome": judgments["outcome"].to_numpy(dtype=np.float64, na_value=np.nan),
        }
    ).dropna(subset=["outcome"])
    swapped = (frame["a"] > frame["b"]).to_numpy()
    low, high = np.minimum(frame["a"], frame["b"]), np.maximum(frame["a"], frame["b"])
    frame = frame.assign(a=low, b=high, outcome=np.where(swapped, 1.0 - frame["outcome"], frame["outcome"]))
    frame["sign"] = np.sign(frame["outcome"] - 0.5)
    votes = frame.groupby(["item", "a", "b", "judge", "draw"], as_index=False, sort=True).agg(
        lowest=("sign", "min"), highest=("sign", "max")
    )
    sign = np.where(votes["lowest"] == votes["highest"], votes["lowest"], 0.0)
    n_items, n_models = len(items), len(models)
    sums, counts = np.zeros((n_items, n_models)), np.zeros((n_items, n_models))
    rows = frame["item"].to_numpy()
    for model, value in (("a", frame["outcome"]), ("b", 1.0 - frame["outcome"])):
        np.add.at(sums, (rows, frame[model].to_numpy()), value.to_numpy())
        np.add.at(counts, (rows, frame[model].to_numpy()), 1.0)
    n_shared = np.zeros((n_models, n_models))
    pairs = votes[["item", "a", "b"]].drop_duplicates()
    np.add.at(n_shared, (pairs["a"].to_numpy(), pairs["b"].to_numpy()), 1.0)
    decided = sign != 0
    a, b = votes["a"].to_numpy(), votes["b"].to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_outcome = sums.sum(axis=0) / counts.sum(axis=0)
    return JudgedVotes(
        item=votes["item"].to_numpy()[decided],
        winner=np.where(sign > 0, a, b)[decided],
        loser=np.where(sign > 0, b, a)[decided],
        mean_outcome=mean_outcome,
        outcome_sums=sums,
        n_judgments=counts,
        n_shared=n_shared + n_shared.T,
        agreement=_agreement(votes.assign(sign=sign)),
    )


def _agreement(votes: pd.DataFrame) -> float:
    """Share of pairs of repeated votes on one item and pair of models that agree."""
    by_pair = votes.groupby(["item", "a", "b"])["sign"]
    counts = votes.assign(n=1).groupby(["item", "a", "b", "sign"])["n"].sum()
    total = by_pair.size()
    n_couples = float((total * (total - 1)).sum())
    return float((counts * (counts - 1)).sum()) / n_couples if n_couples else float("nan")
