"""Change the bytes of a small file, guided by coverage, and read what comes out as `capeval ingest` would.

`python -m fuzz.fuzz_readers TARGET… --seconds N` (without a target all of them, one after the other). A crash ends the
target, and its input is kept under `--keep`. What must hold for any bytes: a refusal is one line of at most 300
characters; every record of what is read is in a row or in a rejection; a score is there exactly where a cell is ok, and
within the range; the file alone lies in its folder afterwards; memory stays below 1 GB. Every DETECTED-th input is
shown to all readers, every WHOLE-th goes the whole way to the raw tables and back.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEMORY_MB = 1024
DETECTED, WHOLE = 10, 500
MAX_BYTES = 20_000
WORDS = ("null", "NaN", "Infinity", "-1", "1e999", "true", "\\\\ud800", "[]", "{}", '\\"', "\\x00", "\\xff", "\\x0a")


@dataclass
class Bench:
    """The folder in which one target lies, and what was counted."""

    root: Path
    name: str
    n_inputs: int = 0
    n_read: int = 0
    n_refused: int = 0
    n_whole: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def lay(self, data: bytes) -> Path:
        """Write the bytes; the time of writing differs each time, as readers remember what they looked at."""
        from fuzz.samples import TARGETS

        target = TARGETS[self.name]
        path = self.root / target.file
        path.write_bytes(data)
        self.n_inputs += 1
        os.utime(path, ns=(self.n_inputs * 1_000_000_000, self.n_inputs * 1_000_000_000))
        return self.root / (target.unit or target.file)

    def check_folder(self, beside: set[str], target_file: str) -> None:
        """Raise AssertionError if a reader left anything behind."""
        found = {path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()}
        assert found == beside | {target_file}, f"left behind: {found - beside - {target_file}}"


def check_refusal(fault: Any) -> None:
    """Raise AssertionError unless a refusal is one printable line with a code."""
    text = str(fault)
    assert 0 < len(text) <= 300 and text.isprintable(), f"message {text!r}"
    assert fault.reason and fault.reason.replace("_", "").isalpha(), fault.reason


def check_chunks(chunks: Any, low: float, high: float) -> None:
    """Raise AssertionError if a record is lost or a score stands where none may."""
    n_read = 0
    accounted: set[int] = set()
    for chunk in chunks:
        n_read += chunk.n_read
        for table in (chunk.generations, chunk.judgments, chunk.metric_values):
            accounted.update(table.column("record").to_pylist())
        for row in chunk.rejections.select(["record", "severity", "message", "location"]).to_pylist():
            if row["record"] is not None and row["severity"] != "warning":
                accounted.add(row["record"])
            assert len(row["message"]) <= 300 and "\n" not in row["message"] and "\n" not in row["location"], row
        rows = zip(*(chunk.generations.column(name).to_pylist() for name in ("status", "score")), strict=True)
        for status, score in rows:
            assert (score is not None and low <= score <= high) if status == "ok" else score is None, (status, score)
        for outcome in chunk.judgments.column("outcome").to_pylist():
            assert outcome is not None and 0 <= outcome <= 1, outcome
    assert accounted == set(range(n_read)), f"{n_read} records, {sorted(accounted ^ set(range(n_read)))[:5]} astray"


def reading_of(bench: Bench) -> Callable[[bytes], None]:
    """The function that reads one input and raises for anything but a refusal."""
    from capeval_pipeline.formats import READERS
    from capeval_pipeline.formats.protocol import Limits, ReadOptions
    from capeval_pipeline.formats.refusals import FileRefused
    from capeval_pipeline.ingestion.detection import detect
    from capeval_pipeline.ingestion.discovery import gate
    from fuzz.samples import TARGETS

    target = TARGETS[bench.name]
    for name, content in target.beside.items():
        (bench.root / name).parent.mkdir(parents=True, exist_ok=True)
        (bench.root / name).write_bytes(content)
    (bench.root / target.file).parent.mkdir(parents=True, exist_ok=True)
    limits = Limits(line_bytes=4_000, json_depth=20, n_bad_rows=20, document_bytes=15_000)
    instances = target.options.get("instances")
    options = ReadOptions(model="elm", instances=None if instances is None else bench.root / instances, limits=limits)
    reader = READERS.get(target.reader)

    def read(data: bytes) -> None:
        path = bench.lay(data)
        try:
            if target.reader == "declaration":
                declare(path)
            else:
                assert reader is not None
                if (fault := gate(bench.root / target.file)) is not None:
                    raise fault
                if bench.n_inputs % DETECTED == 0:
                    try:
                        detect(path)
                    except FileRefused as fault:
                        check_refusal(fault)
                reading = reader.read(path, options)
                low, high = reading.facts.score_range or (0.0, 1.0)
                check_chunks(reading.chunks, low, high)
            bench.n_read += 1
        except FileRefused as fault:
            check_refusal(fault)
            bench.n_refused += 1
            bench.reasons[fault.reason] = bench.reasons.get(fault.reason, 0) + 1
        if bench.n_inputs % WHOLE == 0:
            bench.n_whole += 1
            read_whole_way(bench, path)
            bench.check_folder(set(target.beside), target.file)

    return read


def declare(path: Path) -> None:
    """Read benchmark.yml, mapping.yml or prices.yml."""
    from capeval_pipeline.formats.mapping_file import load_mapping
    from capeval_pipeline.ingestion.benchmark_file import load_benchmark_file, load_prices

    {"benchmark.yml": load_benchmark_file, "mapping.yml": load_mapping, "prices.yml": load_prices}[path.name](path)


def read_whole_way(bench: Bench, path: Path) -> None:
    """Through discovery, detection, counting and the rules between files, twice."""
    from tests.ingestion.workspaces import MemoryWorkspace

    with tempfile.TemporaryDirectory(prefix="whole-", dir=bench.root.parent) as folder:
        workspace = MemoryWorkspace(Path(folder))
        batch = workspace.ingest([bench.root])
        for report in batch.reports:
            assert report.n_read == report.n_kept + report.n_rejected + report.n_duplicate, report
            assert report.status != "refused" or report.n_kept == 0, report
        again = workspace.ingest([bench.root])
        assert again.changes == {}, f"read twice: {[report.status for report in again.reports]}"
        left = list(Path(folder, "tmp").glob("batch*"))
        assert not left, f"left behind: {left}"


def run_target(name: str, seconds: int, keep: Path) -> None:
    """Fuzz one target in this process; libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["capeval_pipeline.formats", "capeval_pipeline.ingestion"]):
        import capeval_pipeline.formats
        import capeval_pipeline.ingestion.benchmark_file
        import capeval_pipeline.ingestion.detection
        import capeval_pipeline.ingestion.reading
        import capeval_pipeline.ingestion.resolution  # noqa: F401
    from fuzz.mutation import mutated
    from fuzz.samples import TARGETS

    home = Path(os.environ["CAPEVAL_FUZZ_FOLDER"])
    bench = Bench(home / "files", name)
    bench.root.mkdir()
    corpus, found = home / "corpus", keep / name
    corpus.mkdir()
    found.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[name].seeds):
        (corpus / f"seed{number}").write_bytes(seed)
    words = sorted({word for seed in TARGETS[name].seeds for word in _words(seed)})
    (home / "words").write_text("".join(f'"{word}"\n' for word in words), encoding="ascii")
    read = reading_of(bench)
    for seed in TARGETS[name].seeds:
        read(seed)
    started, used = time.monotonic(), time.process_time()

    def tell() -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds, busy = time.monotonic() - started, time.process_time() - used
        line = (
            f"{name}: {bench.n_inputs:,} inputs in {seconds:.0f} s ({busy:.0f} CPU s), {bench.n_read:,} read, "
            f"{bench.n_refused:,} refused for {len(bench.reasons)} reasons, {bench.n_whole:,} "
            f"the whole way, peak {peak:.0f} MB"
        )
        (home / "told").write_text(line, encoding="utf-8")

    def one(data: bytes) -> None:
        read(data)
        if bench.n_inputs % 200 == 0:
            tell()

    arguments = [
        sys.argv[0], f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={MAX_BYTES}",
        "-timeout=30", f"-dict={home / 'words'}", f"-artifact_prefix={found}/", "-print_final_stats=0", "-verbosity=0",
        str(corpus),
    ]  # fmt: skip

    def other(data: bytes, max_size: int, seed: int) -> bytes:
        changed = mutated(data, seed) if seed % 2 else atheris.Mutate(data, max_size)
        return changed[:max_size]

    tell()
    atheris.Setup(arguments, one, custom_mutator=other)
    atheris.Fuzz()


def _words(seed: bytes) -> list[str]:
    """Words of a seed, for the dictionary of the fuzzer."""
    import re

    return [word.decode() for word in re.findall(rb"[A-Za-z_0-9./-]{2,40}", seed)] + list(WORDS)


def main() -> int:
    """Fuzz the targets named, each in a process of its own; 1 if one of them crashed."""
    if "CAPEVAL_FUZZ_FOLDER" in os.environ:  # nothing of the readers may be imported before it is instrumented
        run_target(sys.argv[1], int(sys.argv[3]), Path(sys.argv[5]))
        return 0
    from fuzz.samples import TARGETS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default all")
    parser.add_argument("--seconds", type=int, default=600, help="time of each target")
    parser.add_argument("--keep", type=Path, default=Path("fuzz/found"), help="folder for inputs that crashed")
    given = parser.parse_args()
    unknown = [name for name in given.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {unknown[0]!r}; expected some of {', '.join(TARGETS)}")
    crashed = []
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    for name in given.targets or TARGETS:
        with tempfile.TemporaryDirectory(prefix="capeval-fuzz-", dir=place) as folder:
            words = [sys.executable, "-m", "fuzz.fuzz_readers", name, "--seconds", str(given.seconds)]
            environment = {**os.environ, "CAPEVAL_FUZZ_FOLDER": folder, "OMP_NUM_THREADS": "1"}
            ended = subprocess.run([*words, "--keep", str(given.keep.absolute())], env=environment, check=False)
            told = Path(folder) / "told"
            print(told.read_text() if told.is_file() else f"{name}: did not begin", flush=True)
            if ended.returncode:
                crashed.append(name)
                print(f"{name}: CRASHED, see {given.keep / name}", flush=True)
    return 1 if crashed else 0


if __name__ == "__main__":
    sys.exit(main())
