// Numbers as people type them: .3, 0,3, 30 %, 3/10, 1,200 heads; lab/teach/course/typed_numbers.py in the browser.

const PLAIN = String.raw`[-+]?(?:\d+(?:[.,]\d*)*|[.,]\d+)`;
const WORD = String.raw`[\p{L}\p{M}]+`;
const TYPED = new RegExp(`^(${PLAIN})(?:\\s*/\\s*(${PLAIN}))?\\s*(%?)\\s*(?:${WORD}(?:[ /]${WORD})*)?$`, "u");
const TOLERANCE = 0.005; // answers may be off by half a percent, near zero by half a hundredth

/** Every number that a typed text may mean; none where it is no number. */
export function readings(text: string): number[] {
  const plain = text
    .replaceAll("−", "-")
    .replace(/[\u2009\u00a0]/g, " ")
    .trim()
    .replace(/\.+$/, "");
  const found = TYPED.exec(plain);
  if (!found) return [];
  const [, whole, below, percent] = found;
  let values = decimals(whole);
  if (below !== undefined)
    values = values.flatMap((value) =>
      decimals(below)
        .filter((divisor) => divisor !== 0)
        .map((divisor) => value / divisor),
    );
  return percent ? values.map((value) => value / 100) : values;
}

/** Whether a typed text means the same number as another; null where it is no number. */
export function means(text: string, wanted: string): boolean | null {
  let values = readings(text);
  if (!values.length) return null;
  if (wanted.includes("%") && !text.includes("%")) values = [...values, ...values.map((value) => value / 100)];
  else if (text.includes("%") && !wanted.includes("%")) values = [...values, ...values.map((value) => value * 100)];
  const meant = readings(wanted)[0];
  return values.some((value) => Math.abs(value - meant) <= TOLERANCE * Math.max(1, Math.abs(meant)));
}

function decimals(text: string): number[] {
  const grouped = /^[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?$/.test(text);
  const marks = text.replace(/[^.,]/g, "").length;
  const found = grouped ? [Number(text.replaceAll(",", ""))] : [];
  return marks <= 1 ? [...found, Number(text.replace(",", "."))] : found;
}
