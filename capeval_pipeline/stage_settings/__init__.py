"""The fields of each stage: the blocks of benchmark.yml and capeval.toml and the names `--set STAGE.FIELD` takes.

Pydantic models and nothing else; what the fields mean to a method stands in the method.
"""

from pydantic import BaseModel

from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings
from capeval_pipeline.stage_settings.derive import DeriveSettings
from capeval_pipeline.stage_settings.frontier import FrontierSettings
from capeval_pipeline.stage_settings.identification import IdentificationSettings

STAGE_SETTINGS: dict[str, type[BaseModel]] = {
    "derive": DeriveSettings,
    "capabilities": CapabilitiesSettings,
    "identification": IdentificationSettings,
    "frontier": FrontierSettings,
}
