"""The ECC study as tables, and the tables as arrays again: other steps read what was published, nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.arrays.score_matrix import positions_of
from capeval_pipeline.methods.ecc.evaluation import Gain
from capeval_pipeline.methods.ecc.selection import Choice
from capeval_pipeline.methods.ecc.study import EccOptions, EccStudy

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def texts_at(labels: Sequence[str], positions: IntArray) -> pa.Array:
    """Labels at these positions as an Arrow array, without a Python string a row."""
    codes = pa.array(np.asarray(positions, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(labels), pa.string())).dictionary_decode()


def embeddings_table(items: Sequence[str], embedder: str, vectors: FloatArray) -> pa.Table:
    """Rows of estimates.item_embeddings."""
    n_items, n_dimensions = vectors.shape
    offsets = pa.array(np.arange(n_items + 1, dtype=np.int32) * n_dimensions)
    return pa.table(
        {
            "item_id": pa.array(list(items), pa.string()),
            "embedder": pa.array([embedder] * n_items, pa.string()),
            "embedding": pa.ListArray.from_arrays(offsets, pa.array(vectors.ravel(), pa.float64())),
        }
    )


def encode_embeddings(table: pa.Table, items: Sequence[str]) -> FloatArray | None:
    """Vectors of the items in the given order, 0 for an item without one; None for an empty table."""
    if table.num_rows == 0:
        return None
    lists = table.column("embedding").combine_chunks()
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    vectors = values.reshape(table.num_rows, -1)
    position = positions_of(np.asarray(items, dtype=object), table.column("item_id").to_pylist())
    found: FloatArray = np.where(position[:, None] >= 0, vectors[position], 0.0)
    return found


def responsibilities_table(
    by_method: Mapping[str, FloatArray], items: Sequence[str], is_fitted: npt.NDArray[np.bool_]
) -> pa.Table:
    """Rows of estimates.cluster_responsibilities: every item under every method."""
    parts = []
    for method, responsibilities in by_method.items():
        n_items, n_clusters = responsibilities.shape
        item = np.repeat(np.arange(n_items), n_clusters)
        parts.append(
            pa.table(
                {
                    "method": texts_at([method], np.zeros(len(item), dtype=np.int64)),
                    "item_id": texts_at(items, item),
                    "cluster_id": pa.array(np.tile(np.arange(n_clusters), n_items)),
                    "responsibility": pa.array(responsibilities.ravel()),
                    "basis": texts_at(["embedding", "fitted"], is_fitted[item].astype(np.int64)),
                }
            )
        )
    return pa.concat_tables(parts)


@dataclass(frozen=True)
class PublishedMixture:
    """responsibilities : (n_items, n_clusters); strengths : (n_clusters, n_models), in the order of the labels."""

    responsibilities: FloatArray
    strengths: FloatArray


def encode_mixture(
    responsibilities: pa.Table, strengths: pd.DataFrame, method: str, items: Sequence[str], models: Sequence[str]
) -> PublishedMixture | None:
    """One method of cluster_responsibilities and cluster_strengths as arrays; None where it was not fitted."""
    own = strengths[(strengths["method"] == method).to_numpy(dtype=bool)]
    if own.empty:
        return None
    cluster = own["cluster_id"].to_numpy(dtype=np.int64)
    theta = np.full((cluster.max() + 1, len(models)), np.nan)
    theta[cluster, positions_of(own["model_id"].to_numpy(dtype=object), models)] = own["strength"].to_numpy(float)
    rows = responsibilities.filter(pc.equal(responsibilities.column("method"), method))
    item = rows.column("item_id").combine_chunks().dictionary_encode()
    codes = positions_of(np.asarray(item.dictionary.to_pylist(), dtype=object), items)
    position = codes[item.indices.to_numpy(zero_copy_only=False)]
    placed = np.zeros((len(items), theta.shape[0]))
    keep = position >= 0
    placed[position[keep], rows.column("cluster_id").to_numpy()[keep]] = rows.column("responsibility").to_numpy()[keep]
    return PublishedMixture(placed, theta)


def gains_frame(gains: Mapping[tuple[str, str, str], Gain]) -> pd.DataFrame:
    """Rows of estimates.ecc_evaluation."""
    return pd.DataFrame(
        [
            {
                "method": method,
                "inference": inference,
                "pair_subset": subset,
                **gain_columns(gain),
            }
            for (method, inference, subset), gain in gains.items()
        ]
    )


def gain_columns(gain: Gain) -> dict[str, float]:
    """Columns of a gain, as all tables name them."""
    return {
        "n_pairs": gain.n_pairs,
        "nll": gain.nll,
        "nll_global": gain.nll_global,
        "gain_percent": gain.gain_percent,
        "gain_lower": gain.lower,
        "gain_upper": gain.upper,
    }


def grid_frame(choice: Choice | None) -> pd.DataFrame:
    """Rows of estimates.ecc_grid."""
    cells = () if choice is None else choice.cells
    return pd.DataFrame(
        {
            "n_clusters": [cell.n_clusters for cell in cells],
            "ridge": [cell.ridge for cell in cells],
            "embedding_weight": [cell.embedding_weight for cell in cells],
            "heldout_nll": [cell.heldout_nll for cell in cells],
            "heldout_nll_se": [cell.heldout_nll_se for cell in cells],
            "is_chosen": [cell.is_chosen for cell in cells],
        }
    ).astype({"n_clusters": np.int64, "is_chosen": bool})


def encode_choice(grid: pd.DataFrame) -> Choice | None:
    """What the rows of estimates.ecc_grid chose; None for an empty grid."""
    chosen = grid[grid["is_chosen"].to_numpy(dtype=bool)] if len(grid) else grid
    if not len(chosen):
        return None
    row = chosen.iloc[0]
    return Choice(int(row["n_clusters"]), float(row["ridge"]), float(row["embedding_weight"]), cells=())


def fits_frame(
    study: EccStudy,
    options: EccOptions,
    *,
    category_ari: Mapping[str, float],
    n_categories: int,
    n_items: int,
    n_dropped_all_tied: int,
    n_dropped_one_pair: int,
) -> pd.DataFrame:
    """Rows of estimates.ecc_fits; what a method without a mixture does not have is NULL."""
    rows: list[dict[str, object]] = []
    for method, fit in study.fitted.mixtures.items():
        starts = fit.objectives_of_starts
        rows.append(
            {
                "method": method,
                "n_clusters": fit.n_clusters,
                "embedding_weight": fit.embedding_weight,
                "temperature": fit.temperature,
                "ridge": fit.ridge,
                "shrinkage": "global" if method == "ecc_shrunk" else "zero",
                "n_restarts": len(starts),
                "objective": fit.objective,
                "objective_spread": float(starts.max() - starts.min()),
                "n_passes": fit.n_passes,
                "stop_reason": fit.stop_reason,
                "category_ari": category_ari.get(method),
            }
        )
    linear, labels = study.fitted.linear, study.fitted.labels
    if linear is not None:
        rows.append({"method": "linear", "ridge": linear.ridge, "shrinkage": "zero"})
    if labels is not None:
        rows.append(
            {"method": "human_labels", "n_clusters": n_categories, "ridge": labels.ridge, "shrinkage": "global"}
        )
    if study.blend_weights is not None:
        rows.append({"method": "blend"})
    frame = pd.DataFrame(rows).assign(
        converged=True,  # a fit that did not settle is an error, not a row
        seed=options.seed,
        n_items=n_items,
        n_dropped_all_tied=n_dropped_all_tied,
        n_dropped_one_pair=n_dropped_one_pair,
    )
    frame["fit_seconds"] = [study.fitted.seconds.get(str(method)) for method in frame["method"]]
    for name in ("n_clusters", "n_restarts", "n_passes"):
        frame[name] = frame[name].astype("Int64")
    return frame


def cluster_strengths_frame(
    method: str,
    strengths: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    is_compared: npt.NDArray[np.bool_],
    models: Sequence[str],
) -> pd.DataFrame:
    """Rows of estimates.cluster_strengths of one method; arrays are (n_clusters, n_models)."""
    n_clusters, n_models = strengths.shape
    return pd.DataFrame(
        {
            "method": method,
            "cluster_id": np.repeat(np.arange(n_clusters), n_models),
            "model_id": np.tile(np.asarray(models, dtype=object), n_clusters),
            "strength": strengths.ravel(),
            "lower": lower.ravel(),
            "upper": upper.ravel(),
            "is_compared": is_compared.ravel(),
        }
    )


def clusters_frame(
    method: str,
    responsibilities: FloatArray,
    strengths: FloatArray,
    is_compared: npt.NDArray[np.bool_],
    *,
    items: Sequence[str],
    models: Sequence[str],
    top_items: Sequence[Sequence[int]],
    top_terms: Sequence[Sequence[str]],
    lift: FloatArray,
    categories: Sequence[str],
) -> pd.DataFrame:
    """Rows of estimates.clusters of one method: what people read."""
    weight = responsibilities.mean(axis=0)
    rows = []
    for k in range(len(strengths)):
        known = np.flatnonzero(~np.isnan(lift[k]))
        by_lift = known[np.argsort(-np.round(lift[k, known], 9), kind="stable")]
        top_categories = [categories[c] for c in by_lift if lift[k, c] > 1.0][:5]
        is_empty = weight[k] * len(items) < 1e-6
        candidates = np.flatnonzero(is_compared[k])
        best = None if is_empty or not len(candidates) else models[candidates[np.argmax(strengths[k, candidates])]]
        label = ", ".join(top_terms[k][:3]) or (top_categories[0] if top_categories else f"cluster {k}")
        rows.append(
            {
                "method": method,
                "cluster_id": k,
                "weight": float(weight[k]),
                "label": label,
                "top_item_ids": [items[i] for i in top_items[k]],
                "top_categories": top_categories,
                "top_terms": list(top_terms[k]),
                "best_model_id": best,
            }
        )
    return pd.DataFrame(rows)


def cluster_categories_frame(
    method: str, of_cluster: FloatArray, of_category: FloatArray, lift: FloatArray, categories: Sequence[str]
) -> pd.DataFrame:
    """Rows of estimates.cluster_categories of one method; arrays are (n_clusters, n_categories)."""
    n_clusters, n_categories = lift.shape
    return pd.DataFrame(
        {
            "method": method,
            "cluster_id": np.repeat(np.arange(n_clusters), n_categories),
            "category": np.tile(np.asarray(categories, dtype=object), n_clusters),
            "share_of_cluster": of_cluster.ravel(),
            "share_of_category": of_category.ravel(),
            "lift": lift.ravel(),
        }
    )
