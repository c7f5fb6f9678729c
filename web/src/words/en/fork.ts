// The fork: one figure from a query that meets its keys to a real head that is switched off.
const names = ["Ask", "Average", "Two heads", "Join", "Mix", "Many heads", "Switch one off"];

const many = (heads: number, each: number, sets: number) =>
  sets === heads
    ? `A layer is heads side by side: ${heads} with ${each} numbers each, ${heads * each} joined end to end. Each head keeps its own keys and values for every word it has read, and these fill the memory. **Let heads share them.**`
    : `${heads} heads share ${sets} ${sets === 1 ? "set of keys and values (1 KV head)" : `sets of keys and values (${sets} KV heads)`}. There are still ${heads} queries and ${heads} outputs, but the memory for keys and values is **${heads / sets} times smaller.**`;

export default {
  steps: names,
  figure: (step: number) => `Figure: ${names[step - 1] ?? "shares"}`,
  formula: "The formula of multi-head attention",
  oneHead: "The formula of one head",
  head: (head: number) => `head ${head}`,
  joins: (heads: number, each: number) => `${heads} heads × ${each} numbers = **${heads * each}**`,
  asks: ["who is meant?", "what is said of it?"],
  share: (word: string, head: number) => `Share of ${word}, head ${head}`,
  key: (word: string) => `Key of ${word}`,
  query: "Query of it",
  vector: (x: string, y: string) => `${x} and ${y}`,
  voice: {
    ask: "A head begins with a question about *it*: the query **q**, an arrow. Every word has an arrow too, its key **k**. The further a key reaches in the direction of the query, the larger the word's share. **Turn q.**",
    average:
      "This is {1:one head}. It adds up the values, what each word hands over, each as much as its share. That gives one output: a point on the plane, and the same output as four numbers. **Pull a bar.**",
    two: "Two heads ask two questions about the same sentence. {1:Head 1} finds who *it* is, {2:head 2} what is said of it. Each keeps its colour from here to the end.",
    join: "The two outputs are joined end to end. Nothing is added and nothing is chosen: 4 numbers and 4 numbers are 8. This is all that **Concat** means.",
    mixing:
      "W_O makes the result y. Every number of y gets a contribution from {1:head 1} and one from {2:head 2}. **Drag a tile** of the matrix, or a bar at the top, and watch y.",
    identity:
      "With 1 on the diagonal W_O changes nothing: the first four numbers of y are {1:head 1}, the last four {2:head 2}. They never meet. **Choose mixing.**",
    silent: "All rows of {2:head 2} are 0: whatever it finds, nothing of it reaches y. **Drag one of its tiles.**",
    split:
      "Now each head goes through its own four rows, and the two results are added. Look at y: **nothing in it has moved.** It is the same sum.",
    many,
    on: (last: string, reads: string, head: string) =>
      `In a real model, from *${last}*, {1:head ${head}} attends most to **${reads}**. It raises or lowers each token's logit, the score before softmax. **Switch the head off.**`,
    off: (token: string, before: string, after: string, own: string) =>
      `Without it, **${token}** goes from ${before}% to ${after}%.${own && ` Its direct contribution to the logit was ${own}; the rest came through later parts of the model, which read what it wrote.`}`,
    none: (head: string) => `Head ${head} is selected. This model predicts no next token, so nothing is measured here.`,
    waiting: "Running the model …",
  },
  ask: {
    score: "q · k",
    scaled: "÷ √2",
    scaledShort: "q·k ÷ √2",
    both: "q and k",
    softmax: "softmax",
    q: "*q*, what the head asks:\nthe same arrow in all five",
    k: "*k*, how the word\ncan be found",
    shadow: "the shadow of k on q gives\nthe score *q* · *k*: forward\nhigh, backward below 0",
    softmaxNote: "Softmax: e to each score,\ndivided by the sum of all five.\nThe shares add up to 1.",
    drag: "Drag any tip, or a bar.",
  },
  average: {
    plane: "a weighted average of points is a point",
    values: "The values, each row\nas thick as its share",
    valuesShort: "the values, each row as thick as its share",
    output: "Column by column, the\naverage: the head's output\nas four numbers",
  },
  mix: {
    tile: (row: number, column: number) => `W_O, row ${row}, column ${column}`,
    rows: (head: number) => `rows of head ${head}`,
    rowsOf: (head: number) => `rows of head ${head} in W_O`,
    matrix: (rows: number, columns: number) => `W_O: ${rows} rows, ${columns} columns`,
    key: "deep: a large number\nhollow: below 0\nDrag a tile sideways.",
    takes: (at: number) => `*y*_${at} is`,
    together: "together",
    sum: (at: number, one: string, two: string, sum: string) => `*y*_${at} = ${one} + ${two} = **${sum}**`,
  },
  many: {
    coloured: ["Head with the first colour", "Head with the second colour"],
    pick: "Press a head\nto colour it.",
    band: (rows: number) => `one band of\n${rows} ${rows === 1 ? "row" : "rows"} per head`,
    again: (width: number) => `*y*: ${width} numbers again, with every head in each of them`,
    sets: (sets: number) => (sets === 1 ? "1 set of keys and values" : `${sets} sets of keys and values`),
    queries: (heads: number) => (heads === 1 ? "1 query" : `${heads} queries, one per head`),
  },
  off: {
    layer: (heads: number, size: number) => `This layer at the last token: ${heads} heads × ${size} numbers`,
    through: (token: string) => `Through W_O: what each contributes to the logit of “${token}”`,
    next: "The next token",
    others: "all others",
    together: (sum: string) => `all heads of the layer: **${sum}**`,
  },
  controls: {
    asking: "Whose question",
    mixing: "W_O",
    matrices: { identity: "identity", mixing: "mixing", silent: "head 2 at 0" },
    split: "each head through its own rows, then add",
    layers: "A layer of",
    presets: { "768.12.12": "12 heads", "4096.32.32": "32 heads", "4096.32.8": "32 heads, 8 K/V" } as Record<
      string,
      string
    >,
    like: {
      "768.12.12": "as in the smallest GPT-2 and BERT base",
      "4096.32.32": "as in Llama 2 7B",
      "4096.32.8": "grouped-query attention, as in Llama 3 8B",
    } as Record<string, string>,
    heads: (heads: number) => `${heads} heads`,
    head: (head: string) => `head ${head}`,
    again: "Reset",
    show: "Show the numbers",
    hide: "Hide the numbers",
    press: "Press a symbol to see its part.",
  },
  notes: [
    "The numbers are invented, small and exact. Arrows have two numbers here, so scores are divided by √2; real heads often have 64. Softmax turns scores into shares.",
    "The plane is an exact shadow of the four numbers: two directions in place of four.",
    "To keep it small, both heads read the same values. In a real model each head, or group of heads, has its own.",
    "To keep it small, both heads read the same values. In a real model each head, or group of heads, has its own.",
    "",
    "Only the bars of the first two heads are computed; the others are invented.",
    "A head's name is its layer and its number there, both counted from 0. Measured on the loaded model; a switched-off head outputs zeros. Dashed: as it was.",
  ],
  symbols: {
    y: "MultiHead(X), the result y: as many numbers as went in.",
    x: "X: the words of the sentence, each as a row of numbers.",
    concat: "Concat: join the heads' outputs end to end.",
    head1: "A head: it keeps this colour from here on.",
    head2: "Another head: it keeps this colour from here on.",
    headh: "The last of the layer's heads.",
    wo: "W_O: one learned matrix, with some rows for each head.",
    headi: "One head: shares times values, added up.",
    softmax: "softmax: turns scores into shares, which add up to 1.",
    q: "q, the query: what the head looks for.",
    k: "k, the keys: how each word can be found.",
    d: "d: how many numbers q and k have. Here 2, in real heads often 64.",
    v: "v, the values: what each word hands over.",
  } as Record<string, string>,
  alt: {
    shares: (head: number, shares: string) => `Shares of head ${head}: ${shares}.`,
    ask: (shares: string) => `The query of it and the key of each word. Shares: ${shares}.`,
    average: (shares: string, output: string) => `One head. Shares: ${shares}. Its output: ${output}.`,
    two: (one: string, two: string) => `Two heads. Output of head 1: ${one}. Output of head 2: ${two}.`,
    join: (all: string) => `Joined end to end: ${all}.`,
    mix: (y: string, at: number, one: string, two: string) =>
      `y is ${y}. Number ${at} gets ${one} from head 1 and ${two} from head 2.`,
    many: (heads: number, each: number, sets: number) =>
      `${heads} heads with ${each} numbers each, ${heads * each} end to end, ${sets} sets of keys and values.`,
    off: (head: string, off: boolean, token: string, probability: string) =>
      `Head ${head} is ${off ? "off" : "on"}: ${token} ${probability} percent.`,
  },
  table: {
    word: "word",
    share: "share",
    value: "value",
    product: "share × value",
    power: "e to it",
    output: (head: number) => `output of head ${head}`,
    from: (head: number) => `from head ${head}`,
    row: (at: number) => `row ${at}`,
    kept: "kept per word",
    heads: "heads",
    each: "numbers each",
    all: "end to end",
    sets: "sets of K/V",
    token: "next token",
    on: "with the head",
    off: "without it",
    logit: "contribution to the logit",
  },
};
