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
