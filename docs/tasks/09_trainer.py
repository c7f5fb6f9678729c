"""Record the heads of your own Trainer run."""

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

import headscope

model = AutoModelForCausalLM.from_pretrained("base")
recorder = headscope.TrainingRecorder(model, file="run.film")
rows = [{"input_ids": list(range(n, n + 32)), "labels": list(range(n, n + 32))} for n in range(64)]
Trainer(model, TrainingArguments("run", max_steps=40), train_dataset=rows, callbacks=[recorder.callback()]).train()
print(recorder.film.best("induction"))
