"""What holds for any files on their way to the raw tables: counts add up, again is no change, order leaves no trace."""

import random
import shutil
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.mutation import mutated
from fuzz.samples import TARGETS
from tests.formats.reading import write
from tests.ingestion.test_between_files import snapshot
from tests.ingestion.workspaces import MemoryWorkspace


def lay(folder: Path, names: list[str], seed: int) -> list[Path]:
    """A folder a target, its file changed; every second one has a second, differently changed file beside it."""
    rng = random.Random(seed)
    folders = []
    for number, name in enumerate(names):
        target = TARGETS[name]
        place = folder / f"{number}-{name}"
        for beside, content in target.beside.items():
            write(place / beside, content)
        content = mutated(rng.choice(target.seeds), rng.randrange(2**32))
        write(place / target.file, content)
        if rng.random() < 0.5:
            write(place / f"again-{Path(target.file).name}", mutated(content, rng.randrange(2**32)))
        folders.append(place)
    return folders


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.sampled_from(sorted(TARGETS)), min_size=2, max_size=3, unique=True), seed=st.integers(0, 2**32)
)
def test_any_files_leave_counts_that_add_up_whatever_their_order_and_nothing_new_the_second_time(tmp_path, names, seed):
    shutil.rmtree(tmp_path, ignore_errors=True)
    folders = lay(tmp_path / "files", names, seed)
    workspace = MemoryWorkspace(tmp_path / "forwards")
    batch = workspace.ingest(folders)
    for report in batch.reports:
        assert report.n_read == report.n_kept + report.n_rejected + report.n_duplicate
        assert report.status != "refused" or report.n_kept == 0
    n_rows = sum(
        row["status"] != "invalid" for row in workspace.rows("raw.generations")
    ) + len(workspace.rows("raw.judgments"))  # fmt: skip
    assert (n_rows > 0) <= (sum(report.n_kept for report in batch.reports) > 0)

    again = workspace.ingest(folders)
    assert again.changes == {}
    assert {report.status for report in again.reports} <= {"unchanged", "refused", "companion"}

    backwards = MemoryWorkspace(tmp_path / "backwards")
    for folder in reversed(folders):
        backwards.ingest([folder])
    assert snapshot(backwards) == snapshot(workspace)
    # the workspace keeps tables there; what reading left would lie in the folder of its batch
    assert [path for side in ("forwards", "backwards") for path in (tmp_path / side / "tmp").glob("batch*")] == []
