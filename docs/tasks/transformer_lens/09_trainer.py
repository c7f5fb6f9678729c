"""The library records no training: a callback of your own does, from stored patterns."""

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Record(TrainerCallback):
    def __init__(self):
        self.scores, self.ids = [], torch.randint(3, 97, (4, 25)).repeat(1, 2)

    def on_step_end(self, args, state, control, model=None, **more):
        if state.global_step % 2 == 0:
            was, patterns = model.training, model.eval()(self.ids, output_attentions=True).attentions
            self.scores.append([float(each.diagonal(-24, -2, -1).mean((0, 2)).max()) for each in patterns])
            model.train(was)


model = AutoModelForCausalLM.from_pretrained("base", attn_implementation="eager")
recorder = Record()
rows = [{"input_ids": list(range(n, n + 32)), "labels": list(range(n, n + 32))} for n in range(64)]
Trainer(model, TrainingArguments("run", max_steps=40), train_dataset=rows, callbacks=[recorder]).train()
print([max(each) for each in recorder.scores])
