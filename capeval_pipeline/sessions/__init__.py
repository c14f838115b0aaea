"""Live identification: which (model, item) calls to make next, told scores, and a certificate when one may stop."""

from capeval_pipeline.sessions.records import (
    ArmStatus,
    Ask,
    AskReply,
    RejectedLine,
    SessionChoices,
    SessionConfig,
    SessionExport,
    SessionItem,
    SessionStatus,
    TellReply,
)
from capeval_pipeline.sessions.session import Session

__all__ = [
    "ArmStatus",
    "Ask",
    "AskReply",
    "RejectedLine",
    "Session",
    "SessionChoices",
    "SessionConfig",
    "SessionExport",
    "SessionItem",
    "SessionStatus",
    "TellReply",
]
