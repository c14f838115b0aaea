"""Compiled kernels are kept apart by the source they came from."""

import os

from capeval_pipeline import kernel_cache


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
