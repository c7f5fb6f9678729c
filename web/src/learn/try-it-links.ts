// Links from each lesson to pages where it can be tried.

export interface TryItLink {
  href: string;
  says: string;
}

const repeated = encodeURIComponent(
  "the old lamp on the landing burned until morning and the old lamp on the landing burned",
);

export const TRY_IT_LINKS: Record<number, TryItLink[]> = {
  1: [
    { href: "#one-or-many", says: "One or many: train one head and two heads on the task, here" },
    { href: "#by-hand", says: "By hand: what two heads bring home for “it”" },
  ],
  2: [{ href: "#four-heads", says: "Four heads: split, attend, concatenate and mix, drawn for each word" }],
  3: [
    { href: "#by-hand", says: "By hand: drag the numbers of W_O and watch the sum" },
    { href: "#microscope", says: "Microscope: the logit attribution of a real layer, head by head" },
  ],
  4: [
    {
      href: `#microscope?text=${repeated}&show=induction&order=ranked`,
      says: "Microscope: heads ranked by induction on a repeated sentence",
    },
    { href: "#film", says: "Film: watch those heads form" },
  ],
  5: [
    { href: "#cards?card=gpt3-175b&heads=192", says: "Model cards: GPT-3 cut into twice as many heads" },
    { href: "#one-or-many", says: "One or many: the same width, cut in other ways" },
  ],
  6: [{ href: "#microscope?view=arcs", says: "Microscope: arcs from who asks to who is asked" }],
  7: [
    { href: "#cards?card=llama-2-70b", says: "Model cards: Llama-2-70B, 8 KV heads" },
    { href: "#cards?card=llama-2-13b", says: "Model cards: Llama-2-13B, 40 KV heads" },
  ],
  8: [
    { href: "#film?step=733", says: "Film: the head of one layer waits for the head of another" },
    { href: "#cards?card=mixtral-8x7b", says: "Model cards: Mixtral, experts and heads apart" },
  ],
  9: [{ href: "#microscope", says: "Microscope: the next token, and what temperature, top-k and top-p cut away" }],
  10: [{ href: "#census", says: "Census: every head asked every question, over a whole corpus" }],
  11: [{ href: "#microscope", says: "Microscope: what a layer's attention adds to one token" }],
};
