"""The tables of one benchmark as the problem the ECC study solves, with the labels of its arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from capeval_pipeline.arrays.comparisons import encode_judgments, encode_splits, encode_votes
from capeval_pipeline.arrays.ecc_tables import encode_embeddings
from capeval_pipeline.arrays.score_matrix import encode_score_matrix, positions_of
from capeval_pipeline.methods.ecc.study import EccProblem
from capeval_pipeline.methods.ranking import count_untied_pairs

LARGEST_COMPLETE = 200
"""With up to this many models clusters show all of them; above, those that comparisons were sampled from."""


@dataclass(frozen=True)
class LabelledProblem:
    """problem, and what its positions stand for.

    items, models, categories : in text order
    prompts : of the items, "" where there is none; text : (n_items,) equal numbers for equal prompts
    quality, cost : (n_items, n_models), NaN where missing
    key_order : (n_items,) items in the order of their split keys
    tie_margin : qualities that differ by no more than this tie
    n_dropped_all_tied, n_dropped_one_pair : items without votes
    n_models_left_out : models with scores or judgments that clusters do not show
    """

    problem: EccProblem
    items: list[str]
    models: list[str]
    categories: list[str]
    prompts: list[str]
    text: npt.NDArray[np.int64]
    quality: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    key_order: npt.NDArray[np.int64]
    tie_margin: float
    n_dropped_all_tied: int
    n_dropped_one_pair: int
    n_models_left_out: int


def encode_ecc_problem(
    *,
    comparisons: pd.DataFrame,
    item_scores: pd.DataFrame,
    item_splits: pd.DataFrame,
    items: pd.DataFrame,
    judgments: pd.DataFrame,
    embeddings: pa.Table,
    tie_margin: float = 1e-9,
) -> LabelledProblem:
    """Encode one benchmark; items come in id order, so the order of rows cannot matter.

    items : item_id, prompt, category of staging.stg_items
    """
    frame = items.sort_values("item_id", kind="stable")
    item_ids = frame["item_id"].to_list()
    is_judged = bool((comparisons["source"] == "judgment").any()) if "source" in comparisons else False
    known = {*judgments["model_a_id"], *judgments["model_b_id"]} if is_judged else set(item_scores["model_id"].unique())
    compared = {*comparisons["model_a_id"], *comparisons["model_b_id"]}
    models = sorted(known | compared if len(known | compared) <= LARGEST_COMPLETE else compared)
    categories = sorted(set(frame["category"].dropna()))
    splits = encode_splits(item_splits, item_ids)
    votes = encode_votes(comparisons, item_ids, models)
    quality = encode_score_matrix(item_scores, "quality", items=item_ids, models=models).values
    if is_judged:
        judged = encode_judgments(judgments, item_ids, sorted(known))
        n_pairs = np.bincount(judged.item, minlength=len(item_ids))
    else:
        n_pairs = count_untied_pairs(quality, tie_margin=tie_margin)
    has_votes = np.zeros(len(item_ids), dtype=bool)
    has_votes[votes.voted_items] = True
    prompts = [prompt if isinstance(prompt, str) else "" for prompt in frame["prompt"]]
    _, text = np.unique(np.asarray(prompts, dtype=object).astype(str), return_inverse=True)
    return LabelledProblem(
        problem=EccProblem(
            votes=votes,
            embeddings=_in_affordable_precision(encode_embeddings(embeddings, item_ids)),
            is_test=splits.is_test,
            fold=splits.fold,
            category=positions_of(frame["category"].to_numpy(dtype=object), categories),
            n_categories=len(categories),
        ),
        items=item_ids,
        models=models,
        categories=categories,
        prompts=prompts,
        text=text.astype(np.int64),
        quality=quality,
        cost=encode_score_matrix(item_scores, "cost_usd", items=item_ids, models=models).values,
        key_order=splits.key_order,
        tie_margin=tie_margin,
        n_dropped_all_tied=int((~has_votes & (n_pairs != 1)).sum()),
        n_dropped_one_pair=int((~has_votes & (n_pairs == 1)).sum()),
        n_models_left_out=len((known | compared) - set(models)),
    )


def _in_affordable_precision(vectors: npt.NDArray[np.float64] | None) -> npt.NDArray[np.floating] | None:
    """Single precision for more than 10,000 items of more than 256 dimensions: half the memory, F jitters at 1e-8."""
    if vectors is None or vectors.shape[0] <= 10_000 or vectors.shape[1] <= 256:
        return vectors
    return vectors.astype(np.float32)
