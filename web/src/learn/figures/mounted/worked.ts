// The worked example that the figures of a lesson share, and the numbers of it that the text speaks of.
import { WorkedExample } from "../../../by-hand/by-hand.svelte";
import { shortNumber } from "../../../by-hand/scorecard";
import { numbers } from "../../lesson-numbers.svelte";

export const worked = (): WorkedExample => numbers.shared("worked", () => new WorkedExample());

const list = (values: number[]) => `(${values.map((value) => shortNumber(value)).join(" ")})`;

/** Numbers as Python writes them in a list. */
const code = (row: number[]) =>
  `[${row
    .map((value) => Math.round(value * 1e4) / 1e4 + 0)
    .map((value) => (Number.isInteger(value) ? value.toFixed(1) : String(value)))
    .join(", ")}]`;

export function publishWorked(example: WorkedExample): void {
  const card = example.card;
  if (!card || !example.draft) return;
  const size = card.work[0].delivered.length;
  const shares = example.draft.heads.map((head) => head.scorecard);
  numbers.publish({
    animal_share: shares[0].animal,
    tired_share: shares[1].tired,
    o1: list(card.work[0].delivered),
    o2: list(card.work[1].delivered),
    first_of_mix: card.mixed[0],
    a: card.concatenated[0],
    b: card.concatenated[size],
    from_1: example.draft.W_O[0][0],
    from_2: example.draft.W_O[size][0],
    o1_code: code(card.concatenated.slice(0, size)),
    o2_code: code(card.concatenated.slice(size)),
    w_o_code: `[\n${example.draft.W_O.map((row) => `    ${code(row)},\n`).join("")}]`,
  });
}
