"""What `capeval run` says once the driver has done its work."""

import sys
from contextlib import nullcontext

import pytest

from capeval_pipeline.cli import main
from capeval_pipeline.cli.invocation import Invocation
from capeval_pipeline.orchestration import driver


@pytest.mark.parametrize("is_published", [True, False])
def test_a_run_that_published_names_the_database_and_the_report(monkeypatch, capsys, tmp_path, is_published):
    report = driver.RunReport([], is_published, "", "", "")
    monkeypatch.setattr(
        Invocation, "definitions", property(lambda _: pytest.fail("built, though no job was asked for"))
    )
    monkeypatch.setattr(driver, "workspace_instance", lambda _: nullcontext())
    monkeypatch.setattr(driver, "run", lambda *_: report)
    monkeypatch.setattr(sys, "argv", ["capeval", "--data", str(tmp_path), "run"])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr().out
    assert not ended.value.code
    assert (f"published {tmp_path}/capeval.duckdb\nreport    {tmp_path}/reports/index.html\n" in out) == is_published
    assert ("nothing to publish" in out) != is_published
