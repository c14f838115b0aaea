"""From paths to units: what is one thing to read, which files belong to it, and what no reader ever sees.

A unit is a file, or a folder that is read as one. Gates (not a regular file, a link out of the root, empty, pickle)
need no reader; leftovers of editors and downloads are skipped by name.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capeval_pipeline.errors import UsageError
from capeval_pipeline.formats import READERS, canonical, helm, lm_eval, mapping
from capeval_pipeline.formats.mapping_file import FILE_NAMES as MAPPING_NAMES
from capeval_pipeline.formats.refusals import FileRefused, escaped, one_line, refusal
from capeval_pipeline.ingestion.benchmark_file import FILE_NAME, NOTHING_DECLARED, BenchmarkFile, load_benchmark_file

SKIPPED_NAMES = re.compile(
    r"\..*|~\$.*|.*~|.*\.tmp|.*\.part|.*\.partial|.*\.crdownload|.*\.swp|#.*#|4913|Thumbs\.db|desktop\.ini|__MACOSX",
    re.IGNORECASE,
)
PASSED_OVER = frozenset(
    [
        ".md",
        ".txt",
        ".log",
        ".rst",
        ".png",
        ".jpg",
        ".jpeg",
        ".gif",
        ".svg",
        ".pdf",
        ".py",
        ".ipynb",
        ".sh",
        ".js",
        ".ts",
        ".r",
        ".toml",
        ".cfg",
        ".ini",
        ".yml",
        ".yaml",
        ".lock",
    ]
)
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".rds", ".rdata")
PICKLE_START = re.compile(rb"\x80[\x02-\x05]")


OWN_NAMES = frozenset(
    ["lake", "warehouse", "dagster", "locks", "tmp", "cache", "reports", "capeval.duckdb", "capeval.toml"]
)
"""What the pipeline keeps in a workspace."""


def as_text(name: str) -> str:
    """A name of a file as text that can be stored and printed: what is no printable character is escaped."""
    return "".join(character if character.isprintable() else escaped(character) for character in name)


def _absolute(path: Path) -> Path:
    """Absolute path without `..`: `../b` seen from inbox/a lies in inbox/b."""
    return Path(os.path.abspath(path))


@dataclass(frozen=True)
class Place:
    """Where paths are shown and benchmarks named from: the workspace folder and its inbox."""

    data: Path
    inbox: Path

    def shown(self, path: Path) -> str:
        """Path relative to the data folder if inside, else as given, as printable text."""
        try:
            name = _absolute(path).relative_to(_absolute(self.data)).as_posix()
        except ValueError:
            name = path.as_posix()
        return as_text(name)

    def lies_at(self, path: Path) -> str:
        """Where a path lies, whoever names it and from where: relative to the data folder if inside, else absolute."""
        absolute = _absolute(path)
        inside = absolute.is_relative_to(_absolute(self.data))
        return as_text((absolute.relative_to(_absolute(self.data)) if inside else absolute).as_posix())

    def is_own(self, path: Path) -> bool:
        """Whether a path of the workspace is the pipeline's own (lake, databases, reports), which nobody brought."""
        try:
            inside = _absolute(path).relative_to(_absolute(self.data))
        except ValueError:
            return False
        is_workspace = self.data.joinpath("dagster").is_dir() or self.data.joinpath("lake").is_dir()
        return is_workspace and bool(inside.parts) and inside.parts[0] in OWN_NAMES

    def inbox_benchmark(self, path: Path) -> str | None:
        """Name of the folder under the inbox in which a path lies."""
        try:
            parts = _absolute(path).relative_to(_absolute(self.inbox)).parts
        except ValueError:
            return None
        return as_text(parts[0]) if len(parts) > 1 or (parts and path.is_dir()) else None


@dataclass(frozen=True)
class Unit:
    """One thing to read. `refused` holds the reason if a gate closed; `fallback_name` names the benchmark if nothing
    else does; `companions` are the files whose change means reading again. `lies_at` tells two files apart that
    were given under one relative path from two folders."""

    path: Path
    shown_path: str
    lies_at: str
    members: tuple[Path, ...]
    declared: BenchmarkFile
    inbox_name: str | None
    fallback_name: str
    companions: tuple[Path, ...] = ()
    refused: FileRefused | None = None

    @property
    def is_folder(self) -> bool:
        return self.members != (self.path,)


@dataclass
class Found:
    """Units and companions, each in the order of their shown paths."""

    units: list[Unit] = field(default_factory=list)
    companions: list[str] = field(default_factory=list)


def is_skipped(name: str) -> bool:
    """Whether a file or folder of this name is a leftover that is never looked at."""
    return SKIPPED_NAMES.fullmatch(name) is not None


def check_paths(paths: Sequence[Path]) -> None:
    """Raise UsageError for a path that does not exist."""
    for path in paths:
        if not os.path.lexists(path):
            name = one_line(str(path), 200)
            raise UsageError(f"{name}: no such file or folder; expected result files or folders of them")


def discover(paths: Sequence[Path], place: Place, mapping_file: Path | None = None) -> Found:
    """Units of the paths given, each file once; `mapping_file` is the one of --mapping.

    Raises UsageError for a path that does not exist.
    """
    check_paths(paths)
    search = _Search(place, mapping_file)
    for path in paths:
        search.add(path)
    # a companion may have been met before the file that uses it
    search.found.units = [unit for unit in search.found.units if unit.path.absolute() not in search.companions]
    search.found.units.sort(key=lambda unit: unit.shown_path)
    search.found.companions.sort()
    return search.found


class _Search:
    def __init__(self, place: Place, mapping_file: Path | None) -> None:
        self.place, self.mapping_file = place, mapping_file
        self.found = Found()
        self.seen_folders: set[tuple[int, int]] = set()
        self.seen_paths: set[Path] = set()
        self.declarations: dict[Path, BenchmarkFile | FileRefused] = {}
        self.companions: set[Path] = set()

    def add(self, path: Path) -> None:
        if is_skipped(path.name):  # a shell's * names leftovers too
            return
        if path.is_dir():
            root = self._root(path)
            for unit in self._folder(path, root, root, path.name or path.absolute().name):
                self._keep(unit)
        else:
            root = self._root(path.parent)
            self._keep(self._file(path, root, path.absolute().parent.name, is_named=True))

    def _root(self, folder: Path) -> Path:
        """How far up benchmark.yml is looked for and links may lead: the folder given, or its inbox benchmark."""
        name = self.place.inbox_benchmark(folder)
        return self.place.inbox / name if name is not None else folder

    def _keep(self, unit: Unit | None) -> None:
        if unit is None or unit.path.absolute() in self.seen_paths:
            return
        self.seen_paths.add(unit.path.absolute())
        self.found.units.append(unit)
        for companion in unit.companions:
            if companion.absolute() not in self.companions:
                self.companions.add(companion.absolute())
                self.found.companions.append(self.place.shown(companion))

    def _folder(self, folder: Path, root: Path, limit: Path, given_name: str) -> Iterator[Unit | None]:
        """Units of a folder and of the folders in it; a real folder is entered once, however many links lead there."""
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in self.seen_folders:
                return
            self.seen_folders.add((status.st_dev, status.st_ino))
            paths = [folder / name for name in sorted(os.listdir(folder)) if not is_skipped(name)]
            paths = [path for path in paths if not self.place.is_own(path)]
            members = canonical.members(folder) if self._is_canonical(folder, paths) else helm.members(folder)
        except OSError as error:
            yield self._refused(folder, root, given_name, not_opened(folder, error))
            return
        if members:
            yield self._whole_folder(folder, members, root, limit)
        for path in paths:
            try:
                yield from self._inside(folder, path, members, root, limit, given_name)
            except OSError as error:  # of a folder whose names may be read and nothing else
                yield self._refused(path, root, given_name, not_opened(path, error))

    def _inside(
        self, folder: Path, path: Path, members: tuple[Path, ...], root: Path, limit: Path, given_name: str
    ) -> Iterator[Unit | None]:
        """Units at or below one path of a folder; `members` are those the folder's own unit is made of."""
        if path.is_symlink() and not _leads_inside(path, limit):
            if path not in members:  # its own folder is refused for it
                yield self._refused(path, root, given_name, link_refused(path))
        elif path.is_dir():
            inside = self.place.inbox / path.name if folder.absolute() == self.place.inbox.absolute() else root
            yield from self._folder(path, inside, limit, given_name)
        elif not members:
            yield self._file(path, root, given_name, is_named=False)

    def _is_canonical(self, folder: Path, paths: list[Path]) -> bool:
        """A canonical folder; one with results only must hold no other data, or that would be dropped in silence."""
        if not any(path.name.startswith(("results.", "pairs.")) for path in paths):
            return False
        confidence = canonical.matches(folder)
        if confidence >= 1.0 or confidence == 0.0:
            return confidence > 0
        used = {path.name for path in canonical.members(folder)} | {"truth.json", FILE_NAME}
        return all(path.is_dir() or path.name in used or path.suffix.lower() in PASSED_OVER for path in paths)

    def _whole_folder(self, folder: Path, members: tuple[Path, ...], root: Path, limit: Path) -> Unit:
        """The unit of a folder that is read as one."""
        declared = self._declared(folder, root)
        refused = next((fault for member in members if (fault := gate(member)) is not None), None)
        outside = next((member for member in members if member.is_symlink() and not _leads_inside(member, limit)), None)
        if outside is not None:
            refused = link_refused(outside)
        if isinstance(declared, FileRefused):
            refused = declared
            declared = NOTHING_DECLARED
        return Unit(
            path=folder,
            shown_path=self.place.shown(folder),
            lies_at=self.place.lies_at(folder),
            members=members,
            declared=declared,
            inbox_name=self.place.inbox_benchmark(folder),
            fallback_name=as_text(folder.absolute().name),
            companions=declared.files,
            refused=refused,
        )

    def _file(self, path: Path, root: Path, given_name: str, *, is_named: bool) -> Unit | None:
        if path.name == FILE_NAME or path.absolute() in self.companions:
            return None
        fault = gate(path)
        if fault is not None:
            return self._refused(path, root, given_name, fault)
        declared = self._declared(path.parent, root)
        if isinstance(declared, FileRefused):
            if not is_named and _is_of_no_interest(path):
                return None
            return self._refused(path, root, given_name, declared)
        if any(path.absolute() == other.absolute() for other in declared.files):
            self._companion(path)
            return None
        named = self.mapping_file or declared.mapping
        if path.name in MAPPING_NAMES or mapping.is_joined(path, named):
            self._companion(path)
            return None
        if lm_eval.is_results_file(path) and _has_samples(path):
            self._companion(path)
            return None
        if not is_named and _is_of_no_interest(path):
            return None
        return Unit(
            path=path,
            shown_path=self.place.shown(path),
            lies_at=self.place.lies_at(path),
            members=(path,),
            declared=declared,
            inbox_name=self.place.inbox_benchmark(path),
            fallback_name=as_text(given_name),
            companions=(*declared.files, *_companions_of(path, named)),
        )

    def _companion(self, path: Path) -> None:
        if path.absolute() not in self.companions:
            self.companions.add(path.absolute())
            self.found.companions.append(self.place.shown(path))

    def _refused(self, path: Path, root: Path, given_name: str, fault: FileRefused) -> Unit:
        declared = self._declared(path.parent, root)
        return Unit(
            path=path,
            shown_path=self.place.shown(path),
            lies_at=self.place.lies_at(path),
            members=(path,),
            declared=NOTHING_DECLARED if isinstance(declared, FileRefused) else declared,
            inbox_name=self.place.inbox_benchmark(path),
            fallback_name=as_text(given_name),
            refused=fault,
        )

    def _declared(self, folder: Path, root: Path) -> BenchmarkFile | FileRefused:
        """The nearest benchmark.yml from a folder up to the root; a broken one refuses what it governs."""
        current = folder
        while True:
            path = current / FILE_NAME
            if os.path.lexists(path) and not path.is_dir():
                if path not in self.declarations:
                    self.declarations[path] = _load(path, root)
                return self.declarations[path]
            if current.absolute() == root.absolute() or current.absolute() == current.absolute().parent:
                return NOTHING_DECLARED
            current = current.parent if current.parent != current else current.absolute().parent


def _load(path: Path, root: Path) -> BenchmarkFile | FileRefused:
    if path.is_symlink() and not _leads_inside(path, root):
        return link_refused(path)
    if not path.is_file():
        return refusal(path, "config_invalid", "is a pipe, device or socket", "a regular file")
    try:
        return load_benchmark_file(path)
    except FileRefused as fault:
        return fault


def link_refused(path: Path) -> FileRefused:
    """Refusal of a link that leads out of the folder given."""
    found = "is a link that leads out of the folder given, or nowhere"
    return refusal(path, "link_refused", found, "a link that stays inside")


def not_opened(path: Path, error: OSError) -> FileRefused:
    """Refusal of a file or folder that the system does not let us open."""
    return refusal(path, "not_a_file", f"cannot be opened ({error.strerror})", "a readable file or folder")


def _leads_inside(path: Path, root: Path) -> bool:
    try:
        path.resolve(strict=True).relative_to(root.resolve())
    except (ValueError, OSError, RuntimeError):
        return False
    return True


def _is_of_no_interest(path: Path) -> bool:
    return path.suffix.lower() in PASSED_OVER or path.name.upper().startswith(("README", "LICENSE", "SOURCE."))


def _companions_of(path: Path, mapping_file: Path | None) -> Iterator[Path]:
    """Files that readers use beside a file; `mapping_file` was named by a person."""
    for reader in READERS.values():
        if reader is mapping:
            yield from mapping.companions(path, mapping_file)
        elif hasattr(reader, "companions") and reader.matches(path) > 0:
            yield from reader.companions(path)


def _has_samples(results: Path) -> bool:
    """Whether sample files of the same run lie beside a results file of lm-evaluation-harness."""
    return any(
        results in lm_eval.companions(path) and lm_eval.matches(path) > 0
        for path in results.parent.iterdir()
        if path.is_file() and path != results and ".jsonl" in path.name
    )


def gate(path: Path) -> FileRefused | None:
    """Why a file is refused without any reader; None if it may be read."""
    try:
        status = path.stat()
    except OSError as error:
        return not_opened(path, error)
    if not stat.S_ISREG(status.st_mode):
        return refusal(path, "not_a_file", "is a pipe, device or socket", "a regular file")
    if status.st_size == 0:
        return refusal(path, "empty_file", "has 0 bytes", "results", "Copy or export it again.")
    try:
        with path.open("rb") as stream:
            start = stream.read(2)
    except OSError as error:
        return not_opened(path, error)
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(PICKLES) or PICKLE_START.fullmatch(start):
        return pickle_refused(path)
    return None


def pickle_refused(path: Path) -> FileRefused:
    """Refusal of a pickle; it is never opened."""
    return refusal(
        path,
        "pickle_refused",
        "is a pickle, which runs code when opened",
        "Parquet or CSV",
        "Export it to one of them.",
    )
