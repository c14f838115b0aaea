"""Votes between two models, one a row: what tables of comparisons (arena) and mapped ones share.

The outcome is seen from model_a: 1 it won, 0 it lost, 0.5 a tie. A label is never guessed at.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.protocol import (
    ITEM_ROWS,
    JUDGMENT_ROWS,
    Chunk,
    Note,
    ReadOptions,
    chunk_of,
    rejection_rows,
    rows_of,
)
from capeval_pipeline.formats.refusals import FileRefused, message, shown
from capeval_pipeline.formats.tabular import Batch
from capeval_pipeline.formats.unusable_amounts import UnusableAmounts

TIES = {"tie": 0.5, "both_bad": 0.5, "tie (bothbad)": 0.5}
WORDS: dict[str, float] = {"model_a": 1.0, "model_b": 0.0, "left": 1.0, "right": 0.0, **TIES}
SHORT_WORDS: dict[str, float] = {"a": 1.0, "b": 0.0}


class Votes:
    """Turns batches with the columns item_id, prompt (one of them may be missing), model_a, model_b, winner and perhaps
    judge, category, judge_cost_usd into chunks of judgments.

    words : label → outcome.
    has_names : a winner may also be given by its name.
    is_repeatable : a key that comes again is the next draw, for nothing in the file tells voters apart.
    """

    def __init__(
        self,
        path: Path,
        options: ReadOptions,
        place_format: str,
        words: Mapping[str, float],
        *,
        has_names: bool = False,
        is_repeatable: bool = False,
    ) -> None:
        self.path, self.options, self.place_format, self.words = path, options, place_format, words
        self.has_names, self.is_repeatable = has_names, is_repeatable
        self.n_records = 0
        self.unusable = UnusableAmounts(path, place_format)

    def chunks(self, stream: Iterator[Batch]) -> Iterator[Chunk]:
        """Chunks of all batches; a refusal half way knows how many records were seen."""
        try:
            for batch in stream:
                yield self._chunk(batch)
            if told := self.unusable.notes():
                yield chunk_of(n_read=0, rejections=rejection_rows(told))
        except FileRefused as fault:
            fault.n_read = max(fault.n_read, self.n_records)
            raise

    def _chunk(self, batch: Batch) -> Chunk:
        notes: list[Note] = [
            (self.n_records + number, "rejected", self.place_format.format(fault.place), fault.reason, fault.message)
            for number, fault in enumerate(batch.faults)
        ]
        n_rows = batch.n_rows
        records = pa.array(np.arange(self.n_records + len(batch.faults), self.n_records + len(batch.faults) + n_rows))
        self.n_records += len(batch.faults) + n_rows
        nothing = pa.nulls(n_rows, pa.string())
        prompt = cells.as_text(batch.columns["prompt"]) if "prompt" in batch.columns else nothing
        item = cells.as_keys(batch.columns["item_id"]) if "item_id" in batch.columns else nothing
        content = cells.mapped(prompt, text_hash, pa.string())
        models = [cells.plain(cells.as_keys(batch.columns[name])) for name in ("model_a", "model_b")]
        outcome = self._outcomes(batch.columns["winner"], *models)
        has_item = pc.or_(item.is_valid(), content.is_valid())
        has_keys = pc.and_(has_item, pc.and_(models[0].is_valid(), models[1].is_valid()))
        trimmed = [pc.utf8_trim_whitespace(names) for names in models]
        differs = pc.not_equal(*trimmed).fill_null(True)
        good = pc.and_(pc.and_(has_keys, differs), outcome.is_valid())
        for index in np.flatnonzero(~good.to_numpy(zero_copy_only=False)):
            where = self.place_format.format(batch.places[int(index)].as_py())
            faulty = (has_keys[int(index)].as_py(), differs[int(index)].as_py())
            reason, found, expected = self._fault(batch, int(index), *faulty)
            text = message(self.path.name, where, found, expected)
            notes.append((records[int(index)].as_py(), "rejected", where, reason, text))
        said: dict[str, Any] = {
            "record": records, "place": batch.places, "item": item, "content_hash": content, "model_a": models[0],
            "model_b": models[1], "outcome": outcome,
            "draw": None if self.is_repeatable else pa.array(np.zeros(n_rows, np.int64)),
        }  # fmt: skip
        for name in ("judge", "category"):
            if name in batch.columns:
                said[name] = cells.as_text(batch.columns[name])
        if "position" in batch.columns:  # 0: model_a was shown first, 1: model_b; anything else is not known
            position = cells.as_counts(batch.columns["position"]).values
            said["position"] = pc.if_else(pc.less_equal(position, 1), position, pa.scalar(None, pa.int64()))
        if "judge_cost_usd" in batch.columns:
            paid = batch.columns["judge_cost_usd"]
            said["judge_cost_usd"] = self.unusable.without("judge_cost_usd", batch, paid, cells.as_numbers(paid))
        items = {"item": item, "content_hash": content, "category": said.get("category")}
        if self.options.keep_text:
            items["prompt"] = prompt
        return chunk_of(
            n_read=n_rows + len(batch.faults),
            place_format=self.place_format,
            items=rows_of(ITEM_ROWS, items, n_rows).filter(good),
            judgments=rows_of(JUDGMENT_ROWS, said, n_rows).filter(good),
            rejections=rejection_rows(notes),
        )

    def _outcomes(self, winner: pa.Array | pa.ChunkedArray, model_a: pa.Array, model_b: pa.Array) -> pa.Array:
        labels = cells.as_keys(winner)
        outcome = cells.mapped(labels, lambda word: self.words.get(word.strip().lower()), pa.float64())
        if self.has_names:
            names = cells.plain(labels)
            by_name = pc.if_else(pc.equal(names, model_a), 1.0, pc.if_else(pc.equal(names, model_b), 0.0, None))
            outcome = pc.coalesce(outcome, by_name.cast(pa.float64()))
        return outcome

    def _fault(self, batch: Batch, index: int, has_keys: bool, differs: bool) -> tuple[str, str, str]:
        """Reason, what was found and what was expected for a row that is no vote."""
        winner = batch.columns["winner"][index].as_py()
        if not has_keys:
            return "key_missing", "the item, model_a or model_b is empty", "names"
        if not differs:
            return "self_comparison", f"{shown(batch.columns['model_a'][index].as_py())} against itself", "two models"
        labels = ", ".join(self.words)
        if winner in (None, ""):
            return "no_verdict", "winner is empty", f"one of {labels}"
        return "unknown_label", f"winner is {shown(winner)}", f"one of {labels}"
