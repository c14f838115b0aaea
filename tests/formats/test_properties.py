"""What holds for every reader and any change of its files: read or refused, nothing lost, the same again, in any order.

The files and their changes are those that `fuzz/` starts from; there they are changed for as long as one likes.
"""

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval_pipeline.formats import READERS
from capeval_pipeline.formats.refusals import FileRefused
from fuzz.mutation import mutated
from fuzz.samples import TARGETS, Target
from tests.formats.reading import WholeReading, read_whole, write

READ = {name: target for name, target in TARGETS.items() if target.reader != "declaration"}
OF_LINES = [
    "canonical_csv", "canonical_pairs", "canonical_jsonl", "long_csv", "long_jsonl", "wide_csv", "lm_eval",
    "every_eval_ever", "mapping", "mapping_csv", "arena", "arena_jsonl", "mt_bench", "arena_hard",
]  # fmt: skip
METRICS = {"long_csv": "acc", "long_jsonl": "acc", "canonical_jsonl": "acc"}
PLACES = ("record", "place", "location", "message")


def lay(folder: Path, target: Target, content: bytes) -> Path:
    for name, beside in target.beside.items():
        write(folder / name, beside)
    write(folder / target.file, content)
    return folder / (target.unit or target.file)


def read(folder: Path, target: Target, content: bytes, metric: str | None = None) -> WholeReading | FileRefused:
    options = {name: folder / value for name, value in target.options.items()}
    try:
        return read_whole(READERS[target.reader], lay(folder, target, content), model="elm", metric=metric, **options)
    except FileRefused as fault:
        assert 0 < len(str(fault)) <= 300
        assert str(fault).isprintable()
        return fault


def said(found: WholeReading) -> dict[str, Counter]:
    """All that a reading says but where it stands."""
    return {
        name: Counter(
            str(sorted((key, str(value)) for key, value in row.items() if key not in PLACES))
            for row in getattr(found, name)
        )
        for name in ("generations", "judgments", "metric_values", "rejections")
    }


@pytest.mark.parametrize("name", READ)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, 9), seed=st.integers(0, 2**32), cut=st.one_of(st.none(), st.integers(0, 2000)))
def test_a_changed_or_cut_file_is_read_or_refused_and_no_record_is_lost(tmp_path, name, number, seed, cut):
    target = READ[name]
    content = mutated(target.seeds[number % len(target.seeds)], seed)[:cut]
    if not content:
        return
    found = read(tmp_path, target, content)
    if isinstance(found, FileRefused):
        return
    assert found.accounted() == set(range(found.n_read))
    low, high = found.facts.score_range or (0.0, 1.0)
    for row in found.generations:
        assert (row["score"] is None) == (row["status"] != "ok")
        assert row["score"] is None or low <= row["score"] <= high
    again = read(tmp_path, target, content)
    assert isinstance(again, WholeReading)
    assert (again.facts, said(again)) == (found.facts, said(found))


@pytest.mark.parametrize("name", OF_LINES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 2**32))
def test_the_order_of_lines_does_not_matter(tmp_path, name, start):
    target = READ[name]
    rng = random.Random(start)
    first, *others = target.seeds[0].decode().replace('"two\nlines"', "text").strip().split("\n")
    is_csv = target.file.endswith(".csv")
    records = others if is_csv else [first, *others]
    seeds = [rng.choice([None, rng.randrange(2**32)]) for _ in records * 2]
    records = [
        line if seed is None else mutated(line.encode(), seed).decode("utf-8", "replace")
        for line, seed in zip(records * 2, seeds, strict=True)
    ]
    # a quote that is not closed reaches over the lines behind it
    records = [line for line in records if "\n" not in line and "\r" not in line and not (is_csv and '"' in line)]
    head = [first] if is_csv else []
    found = read(tmp_path, target, "\n".join([*head, *records]).encode(), METRICS.get(name))
    rng.shuffle(records)
    other = read(tmp_path, target, "\n".join([*head, *records]).encode(), METRICS.get(name))
    if isinstance(found, FileRefused) or isinstance(other, FileRefused):
        assert isinstance(found, FileRefused) and isinstance(other, FileRefused)
        assert found.reason == other.reason
    else:
        assert (found.n_read, said(found)) == (other.n_read, said(other))
