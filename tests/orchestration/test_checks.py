"""Asset checks of steps: what Dagster is told of a fit that does not settle, a broken claim, a doubtful frontier."""

from dataclasses import replace

import dagster as dg
import pytest

from capeval_pipeline.errors import ConvergenceError, StageSkipped, TableContractError
from capeval_pipeline.methods.debiasing.verdict import Verdict
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.assets.frontier import figure_check
from capeval_pipeline.orchestration.partitions import BENCHMARKS
from capeval_pipeline.orchestration.stages import CLAIMS_CHECK, FIT_CHECK, StageAsset, StageResult
from capeval_pipeline.orchestration.step_assets import build_asset
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import Settings

STEPS = {step.name: step for step in build_graph().steps}


def checks(step: StageAsset, body, tmp_path, instance) -> dict[str, tuple[bool, str, str]]:
    """Run a step with another body: check → (passed, description, severity)."""
    instance.add_dynamic_partitions(BENCHMARKS.name, ["arc"])
    result = dg.materialize(
        [build_asset(replace(step, body=body, inputs=()))],
        instance=instance,
        partition_key="arc",
        resources={"workspace": dg.ResourceDefinition.hardcoded_resource(Workspace(Settings(data=tmp_path / "ws")))},
        raise_on_error=False,
    )
    return {
        found.check_name: (found.passed, found.description, found.severity.name)
        for found in result.get_asset_check_evaluations()
        if ".".join(found.asset_key.path) == step.tables[0]
    }


def test_a_fit_that_does_not_settle_is_a_warning_with_its_reason(tmp_path, instance):
    def body(part, settings):
        raise ConvergenceError("ECC: free energy still fell after 200 passes")

    found = checks(STEPS["ecc"], body, tmp_path, instance)
    assert found == {FIT_CHECK: (False, "ECC: free energy still fell after 200 passes", "WARN")}


def test_a_step_that_does_not_apply_passes_and_says_why(tmp_path, instance):
    def body(part, settings):
        raise StageSkipped("no item has a prompt")

    found = checks(STEPS["ecc"], body, tmp_path, instance)
    assert found[FIT_CHECK] == (True, "Nothing to look at: no item has a prompt.", "WARN")


def test_a_broken_claim_of_a_sql_model_is_an_error_on_its_page(tmp_path, instance):
    def body(part, settings):
        raise TableContractError("staging.stg_items: 2 rows for item_id='17'; expected 1")

    found = checks(STEPS["staging_stg_items"], body, tmp_path, instance)
    assert found == {CLAIMS_CHECK: (False, "staging.stg_items: 2 rows for item_id='17'; expected 1", "ERROR")}


def test_a_sql_model_has_one_check_and_a_table_of_a_method_keeps_its_contract(tmp_path, instance):
    assert STEPS["staging_stg_items"].checks_of("staging.stg_items") == (CLAIMS_CHECK,)
    assert STEPS["ecc"].checks_of("estimates.ecc_fits") == ("fits_its_contract", FIT_CHECK)


@pytest.mark.parametrize(
    ("verdict", "is_well", "words"),
    [
        (Verdict("point", ""), True, "nothing against one figure"),
        (Verdict("bracket_only", "60 items, fewer than 100", "items"), False, "Only limits may be given: 60 items"),
        (Verdict("upper_bound_only", "one draw a cell", "draws"), False, "Only an upper limit may be given: one draw"),
    ],
)
def test_a_frontier_of_which_no_single_figure_may_be_given_is_told(verdict, is_well, words):
    found = figure_check(verdict)
    assert found.passed == is_well
    assert words in found.description


def test_what_an_older_release_recorded_is_made_again_where_a_check_came_in(tmp_path, instance):
    """Fresh by its inputs, but without a finding to show: the body runs once more, and then no more."""
    calls = []

    def body(part, settings):
        calls.append(part.benchmark_id)
        return StageResult(tables={})

    newer = replace(
        STEPS["ecc"], tables=("estimates.clusters",), question="", check_names={"estimates.clusters": (FIT_CHECK,)}
    )
    for step in (replace(newer, check_names={}), newer, newer):
        found = checks(step, body, tmp_path, instance)
    assert calls == ["arc", "arc"]
    assert found[FIT_CHECK] == (True, "Every fit settled.", "WARN")
