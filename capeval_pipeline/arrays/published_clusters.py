"""Published tables of a clustering as what routing one item needs, with the labels of its arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.arrays.ecc_tables import encode_embeddings, encode_mixture
from capeval_pipeline.arrays.score_matrix import positions_of
from capeval_pipeline.methods.ecc.live_routing import PublishedClusters, centres_of, least_known_cosine


@dataclass(frozen=True)
class LabelledClusters:
    """clusters, and what its positions stand for; vectors : (n_items, n_dimensions) of the items."""

    clusters: PublishedClusters
    models: list[str]
    items: list[str]
    vectors: npt.NDArray[np.float64]


def encode_published_clusters(
    *,
    fit: pd.Series,
    embeddings: pa.Table,
    responsibilities: pa.Table,
    strengths: pd.DataFrame,
    costs: pd.DataFrame,
    overall: pd.DataFrame,
) -> LabelledClusters:
    """Encode one method of one benchmark; every frame holds its rows alone.

    fit : the row of ecc_fits; responsibilities, strengths : its rows of cluster_responsibilities, cluster_strengths
    costs : cluster_id, model_id, mean_cost_usd; overall : model_id, strength, mean_cost_usd over all items
    """
    method = str(fit["method"])
    items = sorted(embeddings.column("item_id").to_pylist())
    models = sorted(set(strengths["model_id"]))
    mixture = encode_mixture(responsibilities, strengths, method, items, models)
    vectors = encode_embeddings(embeddings, items)
    if mixture is None or vectors is None:
        raise ValueError(f"{method}: no rows in cluster_strengths or item_embeddings")
    is_fitted = np.zeros(len(items), dtype=bool)
    fitted = responsibilities.filter(pc.equal(responsibilities.column("basis"), "fitted"))
    is_fitted[positions_of(np.array(fitted.column("item_id").unique().to_pylist(), dtype=object), items)] = True
    centres = centres_of(mixture.responsibilities[is_fitted], vectors[is_fitted])
    shape = mixture.strengths.shape
    own = overall.set_index("model_id").reindex(models)
    return LabelledClusters(
        clusters=PublishedClusters(
            centres=centres,
            least_cosine=least_known_cosine(centres, vectors[is_fitted]),
            strengths=mixture.strengths,
            is_compared=_spread(strengths, "is_compared", models, shape) == 1.0,
            costs=_spread(costs, "mean_cost_usd", models, shape),
            global_strengths=own["strength"].to_numpy(dtype=np.float64, na_value=np.nan),
            global_costs=own["mean_cost_usd"].to_numpy(dtype=np.float64, na_value=np.nan),
            embedding_weight=float(fit["embedding_weight"]),
            temperature=float(fit["temperature"]),
        ),
        models=models,
        items=items,
        vectors=vectors,
    )


def _spread(frame: pd.DataFrame, column: str, models: Sequence[str], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    values = np.full(shape, np.nan)
    model = positions_of(frame["model_id"].to_numpy(dtype=object), models)
    cluster = frame["cluster_id"].to_numpy(dtype=np.int64)
    keep = (model >= 0) & (cluster < shape[0])
    values[cluster[keep], model[keep]] = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)[keep]
    return values
