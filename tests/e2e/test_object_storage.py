"""The whole pipeline with its lake on an S3-compatible server, a process of its own that the test starts."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from capeval_pipeline.errors import LakeError
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.retention import clean_lake
from tests.e2e.conftest import call_capeval, free_port
from tests.e2e.one_machine import BENCHMARKS, data_versions, on_one_machine
from tests.patience import ended

pytest.importorskip("moto.server", reason="the test server for object storage is not installed")
boto3 = pytest.importorskip("boto3")

BUCKET = "evaluations"
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class ObjectServer:
    """A running server and what names it to clients."""

    url: str
    environment: dict[str, str]

    def client(self):
        return boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
        )

    def names(self, prefix: str = "") -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


@pytest.fixture(scope="module")
def objects(tmp_path_factory) -> Iterator[ObjectServer]:
    """The server with one empty bucket, and the environment that leads there."""
    port = free_port()
    log = (tmp_path_factory.mktemp("objects") / "server.log").open("w")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    environment = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{url}/moto-api/data.json", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, "the object server did not start"
                time.sleep(0.1)
        found = ObjectServer(url, environment)
        found.client().create_bucket(Bucket=BUCKET)
        yield found
    finally:
        os.environ.clear()
        os.environ.update(before)
        server.kill()
        server.wait()
        log.close()


def lake_on(objects: ObjectServer, tmp_path: Path, name: str) -> Lake:
    return Lake(f"s3://{BUCKET}/{name}", copies=tmp_path / "copies")


def rows(**columns: Sequence[object]) -> pa.Table:
    return pa.table({name: list(values) for name, values in columns.items()})


@pytest.mark.xdist_group("beyond_one_machine")
def test_a_part_is_replaced_and_read_back_through_copies(objects, tmp_path):
    lake = lake_on(objects, tmp_path, "parts")
    lake.write("raw.items", "arc", rows(item_id=["a", "b"]))
    lake.write("raw.items", "desk", rows(item_id=["c"]))
    lake.write("raw.items", "arc", rows(item_id=["d"]))
    assert lake.read("raw.items", "arc").to_pylist() == [{"item_id": "d"}]
    assert sorted(lake.read("raw.items").column("item_id").to_pylist()) == ["c", "d"]
    assert all(Path(path).is_relative_to(tmp_path / "copies") for path in lake.paths("raw.items"))


@pytest.mark.xdist_group("beyond_one_machine")
def test_a_copy_is_fetched_once_and_again_where_it_was_cut_short(objects, tmp_path):
    lake = lake_on(objects, tmp_path, "copies")
    lake.write("raw.items", "arc", rows(item_id=["a", "b"]))
    (path,) = lake.paths("raw.items", "arc")
    fetched = Path(path).stat().st_mtime_ns
    lake.paths("raw.items", "arc")
    assert Path(path).stat().st_mtime_ns == fetched
    Path(path).write_bytes(b"PAR1")
    assert lake.read("raw.items", "arc").num_rows == 2


@pytest.mark.xdist_group("beyond_one_machine")
@pytest.mark.parametrize("content", [None, b"PAR1 cut short"])
def test_an_object_that_is_gone_or_cut_short_is_named_with_the_command_that_repairs_it(objects, tmp_path, content):
    lake = lake_on(objects, tmp_path, f"damaged{content is None}")
    lake.write("raw.items", "arc", rows(item_id=["a", "b"]))
    (name,) = [name for name in objects.names(lake.root.removeprefix(f"s3://{BUCKET}/")) if name.endswith(".parquet")]
    if content is None:
        objects.client().delete_object(Bucket=BUCKET, Key=name)
    else:
        objects.client().put_object(Bucket=BUCKET, Key=name, Body=content)
    with pytest.raises(LakeError, match=r"raw\.items.*`capeval run --rebuild raw\.items` makes it again"):
        lake.read("raw.items", "arc")
    assert not [path for path in (tmp_path / "copies").rglob("*") if path.is_file()]


@pytest.mark.xdist_group("beyond_one_machine")
def test_cleaning_deletes_objects_and_copies_that_nothing_names(objects, tmp_path):
    lake = lake_on(objects, tmp_path, "cleaned")
    lake.write("raw.items", "arc", rows(item_id=["a"]))
    lake.read("raw.items")
    lake.write("raw.items", "arc", rows(item_id=["b"]))
    lake.read("raw.items")
    assert clean_lake(lake, ["raw.items"], tmp_path / "warehouse", retention_days=0) == 1
    assert len([name for name in objects.names("cleaned/") if name.endswith(".parquet")]) == 1
    assert len(list((tmp_path / "copies").rglob("*.parquet"))) == 1
    assert lake.read("raw.items").to_pylist() == [{"item_id": "b"}]


WRITER = """
import sys
import pyarrow as pa
from pathlib import Path
from capeval_pipeline.storage.lake import Lake
root, copies, name, n_commits = sys.argv[1:]
lake = Lake(root, copies=Path(copies))
for number in range(int(n_commits)):
    lake.write("raw.items", name, pa.table({"item_id": [f"{name}{number}"]}))
"""


@pytest.mark.slow
@pytest.mark.xdist_group("beyond_one_machine")
def test_two_processes_commit_to_one_table_and_no_commit_is_lost(objects, tmp_path):
    """Each commit is one put that must find nothing there: the store decides who was first, the other tries again."""
    n_commits = 8
    lake = lake_on(objects, tmp_path, "shared")
    lake.write("raw.items", "arc", rows(item_id=["first"]))
    words = [lake.root, str(tmp_path / "copies")]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, *words, name, str(n_commits)]) for name in ("arc", "desk")
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert lake.delta_version("raw.items") == 2 * n_commits
    assert {row["item_id"] for row in lake.read("raw.items").to_pylist()} == {"arc7", "desk7"}


@pytest.mark.xdist_group("beyond_one_machine")
def test_a_commit_asks_the_store_to_put_only_where_nothing_is(objects, tmp_path):
    """Somebody else's commit appears between our look at the log and ours: the put is refused and the write retried."""
    lake = lake_on(objects, tmp_path, "conditional")
    lake.write("raw.items", "arc", rows(item_id=["first"]))
    opened = DeltaTable(lake.uri("raw.items"))
    lake.write("raw.items", "desk", rows(item_id=["other"]))
    log = objects.names("conditional/raw/items/_delta_log")
    before = {name: objects.client().get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in log}
    write_deltalake(opened, rows(item_id=["late"], benchmark_key=["late"]), mode="append")
    after = {name: objects.client().get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in log}
    assert after == before
    assert sorted(lake.read("raw.items").column("item_id").to_pylist()) == ["first", "late", "other"]


def test_a_store_that_does_not_answer_is_told_in_a_sentence(tmp_path, monkeypatch):
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    lake = Lake("s3://nowhere/lake", copies=tmp_path)
    with pytest.raises(LakeError, match=r"raw\.items: s3://nowhere/lake does not answer .*refused"):
        ended(lambda: lake.read("raw.items"))


def test_a_lake_elsewhere_needs_a_folder_for_copies():
    with pytest.raises(LakeError, match="folder for copies"):
        Lake("s3://bucket/lake")


@pytest.mark.slow
@pytest.mark.xdist_group("beyond_one_machine")
def test_the_whole_pipeline_runs_on_an_object_store(objects, tmp_path, tmp_path_factory, monkeypatch):
    """Files to report, a second run, verify, export: the same data versions as on one machine's disk."""
    reference = on_one_machine(tmp_path_factory.getbasetemp())
    monkeypatch.setenv("CAPEVAL_LAKE_URI", f"s3://{BUCKET}/whole")
    data = tmp_path / "workspace"
    call_capeval("ingest", str(reference.files), data=data)
    call_capeval("run", data=data)
    assert (data / "reports" / "index.html").is_file()
    assert not (data / "lake").exists()

    again = call_capeval("run", data=data).stdout
    assert f"skipped {', '.join(BENCHMARKS)}" in again
    assert "nothing to publish" in again

    assert data_versions(data) == reference.data_versions
    views = "select count(*) as n from information_schema.tables where table_type = 'VIEW'"
    assert json.loads(call_capeval("sql", views, "--json", data=data).stdout) == [{"n": 0}]
    assert "made again the same" in call_capeval("verify", "everyday_units", data=data).stdout
    call_capeval("export", "support_desk", "--to", str(tmp_path / "exported"), data=data)
    assert len(list((tmp_path / "exported").rglob("*.parquet"))) > 30
    assert f"s3://{BUCKET}/whole" in call_capeval("doctor", data=data).stdout
    told = re.search(r"`(deltalake\.DeltaTable\([^`]*)`", (PROJECT / "README.md").read_text(encoding="utf-8"))
    assert told
    strengths = eval(told.group(1).replace("data/lake", f"s3://{BUCKET}/whole"), {"deltalake": deltalake})
    assert len(set(strengths["model_id"])) > 40
