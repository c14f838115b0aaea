"""Local copies of the files of a lake in an object store: DuckDB and the methods read files, not objects.

A file of the lake is never changed under its name, so a copy is good for as long as anybody asks for it, and what
lies here may be deleted at any time. What an object store is and how it is spoken to is lake.py's business.
"""

import os
import shutil
import uuid
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from capeval_pipeline.errors import LakeError

CHUNK_BYTES = 4 * 1024**2


class ObjectStore(Protocol):
    """What is needed of an object store: pyarrow's FileSystem has it."""

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """The object's bytes; raises FileNotFoundError where there is none, OSError where the store does not answer."""


@dataclass(frozen=True)
class ObjectCopies:
    """Copies under `folder` by the objects' names below the lake's root; fetched when first asked for."""

    store: ObjectStore
    folder: Path

    def path(self, name: str, n_bytes: int) -> str:
        """Local path of an object's copy. Raises LakeError where the object is gone or has another size."""
        copy = self.folder / name
        if copy.is_file() and copy.stat().st_size == n_bytes:
            return str(copy)
        copy.parent.mkdir(parents=True, exist_ok=True)
        unfinished = copy.with_name(f".{copy.name}.{uuid.uuid4().hex[:8]}")
        try:
            with self.store.open_input_stream(name) as source, unfinished.open("wb") as target:
                shutil.copyfileobj(source, target, CHUNK_BYTES)
            found = unfinished.stat().st_size
            if found != n_bytes:
                raise LakeError(f"{name}: {found} bytes; the lake's log says {n_bytes}")
            os.replace(unfinished, copy)
        except FileNotFoundError as error:
            raise LakeError(f"{name}: gone from the object store") from error
        finally:
            unfinished.unlink(missing_ok=True)
        return str(copy)

    def forget_all_but(self, table: str, names: Set[str]) -> None:
        """Delete the copies of a table ("layer/table") but for those of these objects."""
        for path in sorted((self.folder / table).rglob("*.parquet")):
            if path.relative_to(self.folder).as_posix() not in names:
                path.unlink(missing_ok=True)
