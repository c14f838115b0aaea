"""`capeval ingest --mapping`: a file of one's own read by a mapping that lies elsewhere."""

import json
import sys

import pytest

from capeval_pipeline import cli
from tests.formats.reading import write


def called(words, monkeypatch, capsys) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["capeval", *map(str, words)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def test_a_mapping_is_given_on_the_command_line(tmp_path, monkeypatch, capsys):
    data = write(tmp_path / "mine/runs.csv", "nr,system,grade\n1,elm,right\n2,elm,wrong\n")
    mapping = "item_id: nr\nmodel: system\nscore: {from: grade, map: {right: 1, wrong: 0}}\n"
    call = ["--data", tmp_path / "ws", "ingest", data, "--dry-run", "--json", "--mapping"]
    code, out, _ = called([*call, write(tmp_path / "maps/own.yml", mapping)], monkeypatch, capsys)
    entries = {entry["format"]: entry for entry in json.loads(out)}
    assert (code, entries["mapping"]["n_kept"]) == (0, 2)
    code, _, err = called([*call, write(tmp_path / "maps/bad.yml", mapping + "modle: x\n")], monkeypatch, capsys)
    assert code == 1
    assert "Did you mean model?" in err
    code, _, err = called([*call, tmp_path / "maps/none.yml"], monkeypatch, capsys)
    assert (code, "none.yml" in err, len(err.strip().splitlines())) == (2, True, 1)
