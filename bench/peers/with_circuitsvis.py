"""The pictures with CircuitsVis, which draws what transformers gives it."""

import harness
import torch


def open_model(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    return model, AutoTokenizer.from_pretrained(folder)


def picture_of_a_head(opened, ids, path):
    from circuitsvis.attention import attention_heads

    model, tokenizer = opened
    with torch.no_grad():
        attention = model(ids[None], output_attentions=True).attentions
    path.write_text(attention_heads(attention[5][0, 1:2], tokenizer.convert_ids_to_tokens(ids)).local_src)


def picture_of_all(opened, ids, path):
    from circuitsvis.attention import attention_heads

    model, tokenizer = opened
    with torch.no_grad():
        attention = model(ids[None], output_attentions=True).attentions
    path.write_text(attention_heads(torch.cat(attention, dim=1)[0], tokenizer.convert_ids_to_tokens(ids)).local_src)


if __name__ == "__main__":
    harness.main("circuitsvis", open_model, picture_of_a_head=picture_of_a_head, picture_of_all=picture_of_all)
