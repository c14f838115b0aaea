"""What may be deleted from the lake: files that no version within the retention and no published database names.

Lake and published databases keep what they hold; here they meet, so that neither has to know the other.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from capeval_pipeline.storage.held_back import files_of_view
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.publications import forget_before
from capeval_pipeline.storage.warehouse import open_published


def files_named_by_views(warehouse_folder: Path) -> set[str]:
    """Paths of the lake's files that views of the published databases read, those of the older ones too."""
    named: set[str] = set()
    for database in sorted(warehouse_folder.glob("capeval-*.duckdb")):
        with open_published(database) as connection:
            named |= set(files_of_view(connection))
    return named


def clean_lake(lake: Lake, keys: Iterable[str], warehouse_folder: Path, *, retention_days: int) -> int:
    """Delete what neither a version of the last days nor a published database needs; returns the number of files."""
    forget_before(warehouse_folder, datetime.now(UTC) - timedelta(days=retention_days))
    keep = sorted(files_named_by_views(warehouse_folder))
    return sum(lake.remove_unreferenced(key, keep=keep, retention_hours=24.0 * retention_days) for key in keys)
