"""What every command is handed: the workspace it was called for, its definitions and instance, and how to print."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.kernel_cache import use_kernel_cache
from capeval_pipeline.progress import Progress, nothing_said
from capeval_pipeline.settings import Settings, load_settings

if TYPE_CHECKING:
    from capeval_pipeline.orchestration.workspace import Workspace


class Invocation:
    """One call of the command; everything heavy is made when first asked for."""

    def __init__(self, data: Path | None, debug: bool = False) -> None:
        self._data = data
        self.debug = debug

    @cached_property
    def settings(self) -> Settings:
        """Settings of the workspace; also sets CAPEVAL_DATA, so that the definitions load the same one."""
        settings = load_settings(self._data)
        os.environ["CAPEVAL_DATA"] = str(settings.root)
        use_kernel_cache(settings.cache / "kernels")
        return settings

    def check_workspace(self) -> None:
        """Raises CapevalError where there is no such folder: a mistyped name must not become a workspace."""
        root = self.settings.root
        if not root.exists():
            raise CapevalError(f"{root}: no such workspace; `capeval ingest PATH` makes one, --data names another")

    @cached_property
    def workspace(self) -> "Workspace":
        from capeval_pipeline.orchestration.workspace import Workspace

        return Workspace(self.settings)

    @cached_property
    def definitions(self) -> Any:
        """Dagster's definitions on this workspace, the same that the UI loads; building them takes a second."""
        is_loaded = "capeval_pipeline.definitions" in sys.modules
        settings = self.settings  # names the workspace in the environment, which loading the module reads
        from capeval_pipeline.definitions import build_definitions, defs

        return build_definitions(settings) if is_loaded else defs

    def job(self, name: str) -> Any:
        """A job of the definitions; they are built when the first is asked for, so where nothing is stale, never."""
        return self.definitions.resolve_job_def(name)


def invocation(context: typer.Context) -> Invocation:
    """The invocation of a command's context."""
    found = context.find_root().obj
    assert isinstance(found, Invocation)
    return found


@contextmanager
def progress(is_shown: bool = True) -> Iterator[Progress]:
    """A function that says what is being done, and how much of how much is: a moving line on a terminal, else nothing.

    The line has the time taken and, once something is done of a known whole, an estimate of the rest.
    """
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(stderr=True)
    if not is_shown or not console.is_terminal:
        yield nothing_said
        return
    columns = (
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(16),
        rich_progress.TextColumn("{task.fields[time]}"),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("starting", total=None, time="")
        started = time.monotonic()

        def say(doing: str, n_done: float = 0.0, n_all: float = 0.0, /) -> None:
            taken = time.monotonic() - started
            told = remaining_time(taken, n_done, n_all)
            shown.update(task, description=doing, completed=n_done, total=n_all or None, time=told, refresh=True)

        yield say


def remaining_time(taken: float, n_done: float, n_all: float) -> str:
    """What is told of the rest of the work after `taken` seconds: nothing before something is done."""
    if not 0 < n_done <= n_all or taken < 1:
        return ""
    rest = taken * (n_all - n_done) / n_done
    return f"about {rest:.0f} s left" if rest < 100 else f"about {rest / 60:.0f} min left"


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()
) -> None:
    """A plain table on stdout; NULL shows as a dash. Texts are data: what looks like markup stays as it is."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*[shown(value) for value in row])
    Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False).print(table)


def shown(value: Any) -> str:
    """A cell as text: unknown is a dash, numbers keep four significant digits."""
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
