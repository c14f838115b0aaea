"""Compiled kernels are kept apart by the source they came from."""

import os
import subprocess
import sys
import time

from capeval_pipeline import kernel_cache

MONTH = 30 * 86_400


def test_another_source_has_another_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(kernel_cache.VARIABLE, raising=False)
    monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "kernel_cache.py"))
    source = tmp_path / "methods" / "kernel.py"
    source.parent.mkdir()
    source.write_text("old")
    kernel_cache.source_hash.cache_clear()
    first = kernel_cache.source_hash()
    source.write_text("new")
    kernel_cache.source_hash.cache_clear()
    assert kernel_cache.source_hash() != first
    kernel_cache.source_hash.cache_clear()


def test_a_folder_the_user_chose_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel_cache.VARIABLE, "/chosen")
    kernel_cache.use_kernel_cache(tmp_path)
    assert os.environ[kernel_cache.VARIABLE] == "/chosen"


def test_kernels_lie_beside_the_code_and_in_the_workspace_where_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "package" / "kernel_cache.py"))
    monkeypatch.setattr(kernel_cache, "source_hash", lambda: "state")
    monkeypatch.setenv(kernel_cache.VARIABLE, "")
    monkeypatch.delenv(kernel_cache.VARIABLE)
    kernel_cache.use_kernel_cache(tmp_path / "workspace")
    assert os.environ[kernel_cache.VARIABLE] == str(tmp_path / "package" / "__pycache__" / "kernels" / "state")
    monkeypatch.delenv(kernel_cache.VARIABLE)
    (tmp_path / "other").write_text("a file where the package's folder would be")
    monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "other" / "kernel_cache.py"))
    kernel_cache.use_kernel_cache(tmp_path / "workspace")
    assert os.environ[kernel_cache.VARIABLE] == str(tmp_path / "workspace" / "state")


def kernels_of(folder, state, *, unused_for):
    """A folder of kernels that was last begun to be used so many seconds ago."""
    found = folder / "kernels" / state
    found.mkdir(parents=True)
    (found / "kernel.nbi").write_bytes(b"compiled")
    os.utime(found, (time.time() - unused_for,) * 2)
    return found


def test_kernels_of_code_that_nobody_ran_for_a_month_go(tmp_path, monkeypatch):
    old, recent = kernels_of(tmp_path, "old", unused_for=MONTH + 60), kernels_of(tmp_path, "recent", unused_for=600)
    used = kernels_of(tmp_path, "used", unused_for=MONTH + 60)
    monkeypatch.setenv(kernel_cache.VARIABLE, str(used))
    kernel_cache.use_kernel_cache(tmp_path)
    assert not old.exists()
    assert (recent / "kernel.nbi").exists() and (used / "kernel.nbi").exists()
    assert time.time() - used.stat().st_mtime < MONTH / 2


def test_kernels_stay_as_long_as_a_process_lives_that_uses_them(tmp_path, monkeypatch):
    held = kernels_of(tmp_path, "held", unused_for=0)
    hold = "import sys, pathlib; from capeval_pipeline.kernel_cache import use_kernel_cache as use"
    hold += f"; use(pathlib.Path({str(tmp_path)!r})); print('held', flush=True); sys.stdin.read()"
    environment = {**os.environ, kernel_cache.VARIABLE: str(held)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", hold], env=environment, text=True, **pipes) as other:
        assert other.stdout.readline() == "held\n"
        os.utime(held, (time.time() - MONTH - 60,) * 2)  # it began that long ago
        monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path / "kernels" / "first"))
        kernel_cache.use_kernel_cache(tmp_path)
        assert (held / "kernel.nbi").exists()
        other.stdin.close()
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path / "kernels" / "second"))
    kernel_cache.use_kernel_cache(tmp_path)
    assert not held.exists()
