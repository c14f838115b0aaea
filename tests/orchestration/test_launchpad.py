"""The launchpad shows every field of a stage, and a step accepts what it shows."""

import dagster as dg
import pytest

from capeval_pipeline.orchestration.launchpad import config_fields
from capeval_pipeline.stage_settings import STAGE_SETTINGS


@pytest.mark.parametrize("stage", sorted(STAGE_SETTINGS))
def test_every_field_of_a_stage_is_shown_with_a_description_and_may_be_left_out(stage):
    fields = config_fields(STAGE_SETTINGS[stage])
    assert set(fields) == {"full", "rebuild", *STAGE_SETTINGS[stage].model_fields}
    for name, field in fields.items():
        assert field.description, name
        assert not field.is_required, name


@pytest.mark.parametrize("stage", sorted(STAGE_SETTINGS))
def test_the_default_values_are_accepted_as_config(stage, instance):
    @dg.op(config_schema=config_fields(STAGE_SETTINGS[stage]))
    def step(context):
        return dict(context.op_config)

    @dg.job
    def job():
        step()

    defaults = STAGE_SETTINGS[stage]().model_dump(mode="json")
    result = job.execute_in_process(instance=instance, run_config={"ops": {"step": {"config": defaults}}})
    assert {
        name: value for name, value in result.output_for_node("step").items() if name not in ("full", "rebuild")
    } == defaults


def test_bounds_stand_in_the_description_in_words():
    fields = config_fields(STAGE_SETTINGS["identification"])
    assert fields["n_seeds"].description.endswith("(default None; at least 1, at most 10000)")
    assert fields["delta"].description.endswith("(default 0.1; above 0, below 0.5)")
    shown = " ".join(
        str(field.description) for model in STAGE_SETTINGS.values() for field in config_fields(model).values()
    )
    assert "=" not in shown.replace("false when", ""), "a bound is shown as the program writes it"
