"""What the nightly run and `capeval doctor --clean` delete: old files of the lake that nobody names."""

from pathlib import Path

import pyarrow as pa

from capeval_pipeline.orchestration.automation import clean
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import Settings
from capeval_pipeline.storage.tables import TABLES
from capeval_pipeline.storage.unfinished import note_before


def test_files_within_the_retention_stay_and_tables_never_made_do_not_matter(tmp_path: Path):
    workspace = Workspace(Settings(data=tmp_path))
    for model in ("alder", "birch"):
        models = pa.Table.from_pylist([{"benchmark_id": "arc", "model_id": model}], TABLES["raw.models"].arrow_schema)
        workspace.lake.write("raw.models", "arc", models)
    assert clean(workspace) == "0 files of the lake deleted that nothing names any more"
    assert len(list(Path(workspace.lake.uri("raw.models")).rglob("part-*.parquet"))) == 2


def test_nothing_goes_while_a_change_waits_to_be_undone(tmp_path: Path):
    workspace = Workspace(Settings(data=tmp_path))
    models = pa.Table.from_pylist([{"benchmark_id": "arc", "model_id": "alder"}], TABLES["raw.models"].arrow_schema)
    workspace.lake.write("raw.models", "arc", models)
    with workspace.benchmark_lock("arc"):
        note_before(workspace.unfinished_note("arc"), workspace.lake, "arc", ["raw.models"])
    assert clean(workspace).startswith("no file deleted: a change that was cut short is undone by the next")
