"""The pictures with BertViz, which draws what transformers gives it."""

import harness
import torch


def open_model(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    return model, AutoTokenizer.from_pretrained(folder)


def picture_of_a_head(opened, ids, path):
    from bertviz import model_view

    model, tokenizer = opened
    with torch.no_grad():
        attention = model(ids[None], output_attentions=True).attentions
    names = tokenizer.convert_ids_to_tokens(ids)
    html = model_view(attention, names, include_layers=[5], include_heads=[1], html_action="return")
    path.write_text(html.data)


def picture_of_all(opened, ids, path):
    from bertviz import model_view

    model, tokenizer = opened
    with torch.no_grad():
        attention = model(ids[None], output_attentions=True).attentions
    html = model_view(attention, tokenizer.convert_ids_to_tokens(ids), html_action="return")
    path.write_text(html.data)


if __name__ == "__main__":
    harness.main("bertviz", open_model, picture_of_a_head=picture_of_a_head, picture_of_all=picture_of_all)
