"""Files that cannot be read: each is told apart by what it is, with what to do about that."""

import bz2
import errno
import io
import json
import lzma
import os
import sqlite3
import tarfile
from pathlib import Path

import pytest

from capeval_pipeline.formats.refusals import FileRefused
from capeval_pipeline.formats.safe_yaml import read_yaml
from capeval_pipeline.ingestion.detection import detect
from capeval_pipeline.ingestion.reading import Request
from tests.formats.reading import write
from tests.ingestion.workspaces import MemoryWorkspace

TABLE = b"item_id,model,score\nq1,elm,1\n"
RECORD = '{"id": "q1", "who": "elm", "points": 1}\n'
MAPPING = "format: jsonl\nfiles: '*.ndjson'\nitem_id: id\nmodel: who\nscore: points\n"


def refused(path, mapping_file=None) -> FileRefused:
    with pytest.raises(FileRefused) as caught:
        detect(path, mapping_file=mapping_file)
    return caught.value


def archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("a.csv")
        member.size = len(TABLE)
        tar.addfile(member, io.BytesIO(TABLE))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "reason", "words"),
    [
        ("a.csv.bz2", bz2.compress(TABLE), "codec_missing", "bzip2"),
        ("a.csv.xz", lzma.compress(TABLE), "codec_missing", "xz"),
        ("a.tar.gz", archive(), "unknown_format", "tar archive"),
        ("deep.json", b"[" * 100_000, "nesting_too_deep", "100 levels"),
        ("deep text.json", b'["' + b"[" * 200 + b'"]', "unknown_format", "JSON"),
        ("page.html", b"<html><body>60 %</body></html>", "unknown_format", "is HTML"),
        ("mmlu_elm.html", b"<!DOCTYPE html>\n<html><body><h1>Metrics</h1><table></table></body></html>",
         "aggregate_only", "totals"),
        ("a.json", TABLE, "unknown_format", "called .csv"),
        ("a.dat", TABLE.replace(b",", b";"), "unknown_format", "Nearest: long"),
        ("a.dat", b"hello, world\n", "unknown_format", "text that begins 'hello, world"),
    ],
)  # fmt: skip
def test_a_file_is_told_by_what_it_is(tmp_path, name, content, reason, words):
    fault = refused(write(tmp_path / name, content))
    assert (fault.reason, words in str(fault)) == (reason, True), str(fault)


def test_a_database_is_known_by_its_content(tmp_path):
    with sqlite3.connect(tmp_path / "results") as database:
        database.execute("create table results (score)")
    database.close()
    assert "is a database" in str(refused(tmp_path / "results"))


@pytest.mark.parametrize("is_named", [True, False])
def test_a_mapping_for_other_files_is_told_with_its_pattern(tmp_path, is_named):
    mapping = write(tmp_path / ("else/m.yml" if is_named else "mapping.yml"), MAPPING)
    fault = refused(write(tmp_path / "a.jsonl", RECORD), mapping if is_named else None)
    assert f"{mapping.name} is for '*.ndjson'" in str(fault)
    assert "keys id, who, points" in str(fault)


def test_a_fault_of_a_mapping_is_told_once_and_names_file_mapping_and_key(tmp_path):
    folder = tmp_path / "inbox" / "b"
    write(folder / "mapping.yml", MAPPING.replace("ndjson", "jsonl").replace("jsonl\n", "xml\n", 1))
    write(folder / "a.jsonl", RECORD)
    (report,) = [report for report in MemoryWorkspace(tmp_path).ingest([folder]).reports if report.rejections]
    assert report.rejections[0].message == (
        "a.jsonl: mapping.yml: key format: is 'xml'; expected one of csv, tsv, jsonl, json, parquet."
    )


def test_a_list_of_records_is_no_key_of_a_table(tmp_path):
    folder = tmp_path / "inbox" / "b"
    mapping = write(tmp_path / "m.yml", MAPPING.replace("ndjson", "jsonl") + "records: data\n")
    write(folder / "a.jsonl", RECORD)
    (report,) = [
        report
        for report in MemoryWorkspace(tmp_path).ingest([folder], Request(mapping=mapping)).reports
        if report.rejections
    ]
    assert (report.rejections[0].location, report.rejections[0].reason) == ("key records", "mapping_invalid")


@pytest.mark.parametrize("said", ["submitted_instances", "resolved_ids", "unresolved_ids"])
def test_a_swebench_report_is_known_by_either_of_its_other_keys(tmp_path, said):
    report = {"completed_ids": ["a"], "error_ids": [], said: [] if said.endswith("ids") else 2}
    assert detect(write(tmp_path / "lab__elm.run.json", json.dumps(report, indent=1))) == "swebench"


def test_a_file_of_declarations_that_may_not_be_opened_is_told_so(tmp_path, monkeypatch):
    path = write(tmp_path / "benchmark.yml", "name: arc\n")

    def closed(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_text", closed)
    with pytest.raises(FileRefused) as caught:
        read_yaml(path, "config_invalid")
    assert "cannot be opened (Permission denied)" in str(caught.value)
