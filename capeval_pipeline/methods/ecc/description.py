"""Words for clusters: items, terms and categories that stand for them."""

from collections.abc import Sequence
from os.path import commonprefix

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray


def typical_items(
    responsibilities: FloatArray, cosines: FloatArray, text: IntArray, *, n_items: int = 5
) -> list[list[int]]:
    """Items with the largest r_qk (x_q . c_k) of each cluster, different texts first.

    responsibilities, cosines : (n_items, n_clusters); text : (n_items,) equal numbers for equal texts
    """
    chosen = []
    for k in range(responsibilities.shape[1]):
        order = np.argsort(-np.round(responsibilities[:, k] * cosines[:, k], 12), kind="stable")
        order = order[responsibilities[order, k] > 1e-6]
        # Several items of one text would say one thing five times.
        _, first = np.unique(text[order], return_index=True)
        fresh = np.sort(first)[:n_items]
        repeats = np.setdiff1d(np.arange(len(order)), first)[: n_items - len(fresh)]
        chosen.append([int(i) for i in (*order[fresh], *order[repeats])])
    return chosen


def without_boilerplate(texts: Sequence[str], *, n_sharing: int = 20, n_letters: int = 60) -> list[str]:
    """Texts without a beginning and an end of n_letters or more that n_sharing texts or more have in common.

    Instructions and worked examples say what a prompt was made of, not what it asks; terms of theirs would name
    clusters after the first example. Whole words go; a text that is nothing else stays as it is.
    """
    shortened = _without_beginnings(texts, n_sharing, n_letters)
    backwards = _without_beginnings([text[::-1] for text in shortened], n_sharing, n_letters)
    return [text[::-1] or whole for text, whole in zip(backwards, texts, strict=True)]


def _without_beginnings(texts: Sequence[str], n_sharing: int, n_letters: int) -> list[str]:
    # Texts of one beginning stand together in order, and what the first and last of a stretch share, all of it do.
    different = sorted(set(texts))
    n_common = [0] * len(different)
    for first in range(len(different) - n_sharing + 1):
        last = first + n_sharing - 1
        if different[first][:n_letters] != different[last][:n_letters]:
            continue
        shared = len(commonprefix([different[first], different[last]]))  # noqa: RUF071 letters are what is meant
        if shared >= n_letters:
            for place in range(first, last + 1):
                n_common[place] = max(n_common[place], shared)
    kept = {}
    for text, n in zip(different, n_common, strict=True):
        cut = max(text.rfind(" ", 0, n), text.rfind("\n", 0, n)) + 1 if n else 0
        kept[text] = text[cut:]
    return [kept[text] for text in texts]


def telling_terms(
    term_matrix: object, terms: Sequence[str], responsibilities: FloatArray, *, n_terms: int = 5
) -> list[list[str]]:
    """Terms with the highest mean TF-IDF in a cluster over that outside it, up to n_terms a cluster.

    term_matrix : sparse (n_items, n_terms). Both means get a tenth of the cluster's most frequent term, or terms of
    one or two texts would win everywhere.
    """
    if not len(terms):
        return [[] for _ in range(responsibilities.shape[1])]
    inside_sums = np.asarray((term_matrix.T @ responsibilities).T)  # type: ignore[attr-defined]
    total = inside_sums.sum(axis=0)
    weight = responsibilities.sum(axis=0)
    found = []
    for k in range(responsibilities.shape[1]):
        inside = inside_sums[k] / max(weight[k], 1e-12)
        outside = (total - inside_sums[k]) / max(len(responsibilities) - weight[k], 1e-12)
        floor = 0.1 * inside.max() + 1e-9
        ratio = np.where(inside > 0, (inside + floor) / (outside + floor), 0.0)
        best: list[str] = []
        for j in np.argsort(-np.round(ratio, 9), kind="stable"):
            if len(best) == n_terms or ratio[j] <= 1.0 or weight[k] < 1e-6:
                break
            # "new york" after "york" adds nothing.
            if not any(set(terms[j].split()) & set(word.split()) for word in best):
                best.append(terms[j])
        found.append(best)
    return found


def category_shares(
    responsibilities: FloatArray, category: IntArray, n_categories: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(share_of_cluster, share_of_category, lift), each (n_clusters, n_categories); items of no category are left out.

    category : (n_items,), -1 where none. A cluster without items of any category has NaN shares.
    """
    known = category >= 0
    member = np.zeros((int(known.sum()), n_categories))
    member[np.arange(len(member)), category[known]] = 1.0
    mass = responsibilities[known].T @ member
    with np.errstate(divide="ignore", invalid="ignore"):
        share_of_cluster = mass / mass.sum(axis=1, keepdims=True)
        share_of_category = mass / mass.sum(axis=0, keepdims=True)
        lift = share_of_cluster / (mass.sum(axis=0) / mass.sum())
    return share_of_cluster, share_of_category, lift


def adjusted_rand_index(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Agreement of two partitions of the same items, 1 for equal, about 0 for unrelated (Hubert and Arabie 1985)."""
    _, a = np.unique(np.asarray(first), return_inverse=True)
    _, b = np.unique(np.asarray(second), return_inverse=True)
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)

    def couples(counts: FloatArray) -> float:
        return float((counts * (counts - 1.0)).sum() / 2.0)

    together, rows, columns = couples(table), couples(table.sum(axis=1)), couples(table.sum(axis=0))
    expected = rows * columns / max(couples(np.array([float(len(a))])), 1.0)
    ceiling = 0.5 * (rows + columns)
    return 1.0 if ceiling == expected else (together - expected) / (ceiling - expected)
