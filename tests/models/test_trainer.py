"""transformers' own Trainer, really run, leaves a film."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headscope.heads.film import Film, TrainingRecorder
from headscope.heads.probe import RepeatProbe


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_run_is_filmed_from_its_first_step_to_its_last(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=60, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config)
    rows = torch.randint(1, 60, (16, 12))
    probe = RepeatProbe(vocabulary=60, length=8, rows=1)
    recorder = TrainingRecorder(model, probe=probe, file=tmp_path / "film.safetensors", share=1.0)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=6,
            per_device_train_batch_size=4,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            logging_steps=1,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in rows],
        callbacks=[recorder.callback()],
    )
    trainer.train()
    film = Film.load(tmp_path / "film.safetensors")
    assert film.series("step")[0] == 0
    assert film.series("step")[-1] == 6
    assert film.heads == ("0.0", "0.1", "1.0", "1.1")
    assert film.series("loss")[-1] > 0
    assert model.config._attn_implementation == "sdpa"
