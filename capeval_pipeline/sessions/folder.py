"""The folder of a session, `<data>/sessions/<name>/`: what lies in it, and how it comes into being in one step.

* `session.json`: the configuration, frozen
* `items.jsonl`: item_id, prompt and category, one line an item, in the order in which the session numbers them
* `predictor.npz`: the frozen item factors; only where the policy uses a predictor
* `journal.jsonl`: everything asked and told; `lock`: held by whoever writes
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval_pipeline.errors import CapevalError, UsageError
from capeval_pipeline.sessions.journal import make_journal, sync_folder, write_synced
from capeval_pipeline.sessions.records import SessionConfig, SessionItem

if TYPE_CHECKING:
    from capeval_pipeline.methods.identification.records import Predictor
    from capeval_pipeline.sessions.setup import SessionSetup

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
UNFINISHED = ".new-"
UNFINISHED_SECONDS = 3600.0


def session_folder(data: str | Path, name: str) -> SessionFolder:
    """The folder of a session of the workspace `data`, there or not. Raises UsageError for an unusable name."""
    if not NAME.fullmatch(name) or name.endswith("."):
        raise UsageError(
            f"session name {name[:80]!r}; expected 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter "
            "or digit"
        )
    return SessionFolder(Path(data).expanduser().absolute(), name)


class SessionFolder:
    """Paths and files of one session."""

    def __init__(self, data: Path, name: str) -> None:
        self.path = path = data / "sessions" / name
        self.kernels = data / "cache" / "kernels"
        self.journal = path / "journal.jsonl"
        self._config = path / "session.json"
        self._items = path / "items.jsonl"
        self._predictor = path / "predictor.npz"

    def refuse_if_there(self) -> None:
        """Raise CapevalError where a session of this name exists."""
        if self.path.exists():
            raise CapevalError(
                f"session {self.path.name!r} exists ({self.path}); give the new one another name, or go on with "
                f"`capeval identify ask {self.path.name}`"
            )

    def make(self, setup: SessionSetup) -> None:
        """Write a new session aside and give it its name in one step, so that there is never half a session."""
        self.refuse_if_there()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _sweep(self.path.parent)
            aside = self.path.parent / f"{UNFINISHED}{os.getpid()}-{time.time_ns()}"
            aside.mkdir()
        except OSError as error:
            raise CapevalError(f"{self.path.parent}: cannot be written to ({error.strerror})") from error
        try:
            write_synced(aside / self._items.name, items_content(setup.items))
            if setup.predictor is not None:
                write_synced(aside / self._predictor.name, predictor_content(setup.predictor))
            config = json.dumps(setup.config.as_json(), indent=2, ensure_ascii=False) + "\n"
            write_synced(aside / self._config.name, config.encode())
            make_journal(aside / self.journal.name)
            sync_folder(aside)
            try:
                aside.rename(self.path)
            except OSError:
                self.refuse_if_there()  # another process was first
                raise
            sync_folder(self.path.parent)
        except OSError as error:
            raise CapevalError(f"{self.path}: {error.strerror}; the session was not made") from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def read_config(self) -> SessionConfig:
        """Raises UsageError where there is no such session, CapevalError where its file is damaged."""
        try:
            content: dict[str, Any] = json.loads(self._config.read_bytes())
            known = {field.name for field in fields(SessionConfig)}
            given = {name: value for name, value in content.items() if name in known}
            return SessionConfig(**{**given, "arms": tuple(content["arms"])})
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(self._unknown()) from None
        except (ValueError, TypeError, KeyError) as error:
            raise CapevalError(f"{self._config}: damaged ({error}); put back a copy of the file") from error

    def read_items(self, config: SessionConfig) -> list[SessionItem]:
        """Raises CapevalError where the file is not the one the session was made with."""
        content = self._content(self._items, config.items_version)
        rows = (json.loads(line) for line in content.splitlines())
        return [SessionItem(row["item_id"], row["prompt"], row["category"]) for row in rows]

    def read_predictor(self, config: SessionConfig) -> Predictor | None:
        """The frozen item factors; None where the policy uses none. Raises CapevalError where they are not the same."""
        if config.predictor_version is None:
            return None
        import numpy as np

        from capeval_pipeline.methods.identification.records import Predictor
        from capeval_pipeline.methods.item_factors import PairMoments

        with np.load(io.BytesIO(self._content(self._predictor, config.predictor_version))) as arrays:
            moments = PairMoments(*(float(value) for value in arrays["held_out_moments"]))
            return Predictor(arrays["item_factors"], arrays["prior_mean"], float(arrays["l2"]), moments)

    def _content(self, path: Path, version: str) -> bytes:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CapevalError(f"{path}: cannot be read ({error.strerror}); put back a copy of the file") from error
        if content_version(content) != version:
            raise CapevalError(f"{path}: is not the file the session was made with; put back a copy of it")
        return content

    def _unknown(self) -> str:
        folder = self.path.parent
        known = sorted(path.parent.name for path in folder.glob("*/session.json") if path.parent.name[0] != ".")
        listed = ", ".join(known[:20]) if known else "none yet; `capeval identify new` makes one"
        return f"no session {self.path.name!r}; there are: {listed}"


def content_version(content: bytes) -> str:
    """Hash of a file's content."""
    return hashlib.sha256(content).hexdigest()[:24]


def items_content(items: Sequence[SessionItem]) -> bytes:
    """The file of a session's items."""
    rows = ({"item_id": item.item_id, "prompt": item.prompt, "category": item.category} for item in items)
    # Only "\n" ends a line of this file: the text may hold other line ends, which JSON escapes here.
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def predictor_content(predictor: Predictor) -> bytes:
    """The file of frozen item factors; the same bytes for the same numbers."""
    import numpy as np

    moments = predictor.held_out_moments
    file = io.BytesIO()
    np.savez(
        file,
        item_factors=predictor.item_factors,
        prior_mean=predictor.prior_mean,
        l2=np.float64(predictor.l2),
        held_out_moments=np.array([moments.covariance, moments.prediction_variance, moments.score_variance]),
    )
    return file.getvalue()


def _sweep(folder: Path) -> None:
    """Remove what a killed `new` left behind, once it is old."""
    for path in folder.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
