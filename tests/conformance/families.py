"""List every model class in transformers' auto tables, by task and directory."""

from __future__ import annotations

from dataclasses import dataclass

import transformers
from transformers.models.auto import modeling_auto as tables


@dataclass(frozen=True)
class Job:
    """One class to verify: its category, its family, and its name."""

    category: str
    model_type: str
    kind: str


CATEGORIES = {
    "causal LM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "masked LM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "seq2seq LM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "speech seq2seq": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "image and text to text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "image classification": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "CTC": "MODEL_FOR_CTC_MAPPING_NAMES",
    "audio classification": "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "text encoder": "MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES",
    "image encoder": "MODEL_FOR_IMAGE_MAPPING_NAMES",
    "object detection": "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
    "base model": "MODEL_MAPPING_NAMES",
}


def jobs() -> list[Job]:
    """All classes, each once, in the order of the categories."""
    found: dict[tuple[str, str], Job] = {}
    for category, table in CATEGORIES.items():
        for model_type, kinds in getattr(tables, table).items():
            for kind in kinds if isinstance(kinds, (tuple, list)) else [kinds]:
                found.setdefault((model_type, kind), Job(category, model_type, kind))
    return list(found.values())


def folder_of(job: Job) -> str:
    """The directory of transformers/models that has this class."""
    kind = getattr(transformers, job.kind)
    parts = kind.__module__.split(".")
    return parts[2] if len(parts) > 2 else parts[-1]
