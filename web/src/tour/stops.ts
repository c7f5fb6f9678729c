// The six stops: the page each one shows, the region that stays lit, and when its one thing is done.
import { fieldsAt, queryOf } from "../address-fields";
import { percent, visible } from "../format";
import type { PageKey } from "../pages";
import { words } from "../words/words";
import { isLost, type Evidence } from "./evidence";

export interface Stop {
  page: PageKey;
  /** the region in which the student works, and what else stays in sight */
  lit: string;
  shown?: string;
  /** where an input counts, if not anywhere in the lit region */
  acts?: string;
  /** goes on with the numbers that the stop before was left with */
  continues?: boolean;
  /** the state in which it opens, beside what the stop's own address says */
  opens?: (evidence: Evidence) => Record<string, string | number>;
  done: (fields: URLSearchParams, acted: boolean, evidence: Evidence | null) => boolean;
  says: (done: boolean, evidence: Evidence) => string;
}

const region = (name: string) => `[data-region="${name}"]`;
const edited = (fields: URLSearchParams, acted: boolean) => acted && fields.has("e");
const lastToken = (evidence: Evidence) => visible(evidence.look.tokens.at(-1)?.text ?? "");

function saysRealHeads(done: boolean, evidence: Evidence): string {
  const { heads, named, resting, head, why } = evidence;
  const said = words.tour.realHeads;
  if (done) {
    const after = why === "pushes" ? said.after : said.afterInduction;
    return after(lastToken(evidence), visible(evidence.reads));
  }
  return why === "tested" ? said.tested(heads.length, named ?? 0, resting, head) : said[why](heads.length, head);
}

function saysSwitchOff(done: boolean, evidence: Evidence): string {
  const { lost, head } = evidence;
  const said = words.tour.switchOff;
  if (!lost) return said.none(head);
  const [token, before, after] = [visible(lost.token), percent(lost.before), percent(lost.after)];
  if (!done) return said.before(evidence.look.text, token, before, head);
  return (isLost(evidence) ? said.lost : said.kept)(token, before, after, head);
}

/** Switched off for good, or by the switch that compares with and without the selected head. */
function isOff(fields: URLSearchParams, acted: boolean, { head }: Evidence): boolean {
  const compared = acted && fields.get("head") === head && fields.get("compare") !== "0";
  return compared || (fields.get("off") ?? "").split(",").includes(head);
}

/** A head other than the one that is looked for, so that finding it changes the picture. */
const another = ({ heads, head }: Evidence) => heads.find((name) => name !== head) ?? head;

export const TOUR: Stop[] = [
  {
    page: "by-hand",
    lit: region("head-1"),
    shown: region("sentence"),
    done: edited,
    says: (done) => (done ? words.tour.oneHead.after : words.tour.oneHead.before),
  },
  {
    page: "by-hand",
    lit: region("scores-1"),
    done: edited,
    says: (done) => (done ? words.tour.shares.after : words.tour.shares.before),
  },
  {
    page: "by-hand",
    lit: region("heads"),
    shown: region("sentence"),
    acts: region("head-2"),
    done: edited,
    says: (done) => (done ? words.tour.twoHeads.after : words.tour.twoHeads.before),
  },
  {
    page: "by-hand",
    continues: true,
    lit: region("mix"),
    shown: region("words"),
    done: (fields) => fields.get("wo") === "mixing",
    says: (done) => (done ? words.tour.mixed.after : words.tour.mixed.before),
  },
  {
    page: "microscope",
    lit: region("grid"),
    shown: [region("pattern"), region("tokens")].join(", "),
    opens: (evidence) => ({ text: evidence.look.text, head: another(evidence), compare: 0 }),
    done: (fields, _, evidence) => evidence !== null && fields.get("head") === evidence.head,
    says: saysRealHeads,
  },
  {
    page: "microscope",
    lit: [region("next-title"), region("guesses"), region("edits")].join(", "),
    opens: (evidence) => ({ text: evidence.look.text, head: evidence.head, compare: 0 }),
    done: (fields, acted, evidence) => evidence !== null && (evidence.lost === null || isOff(fields, acted, evidence)),
    says: saysSwitchOff,
  },
];

/** The stop that an address names, 1 to 6. */
export function stopAt(hash: string): number {
  const found = /^#tour\/(\d+)/.exec(hash);
  return Math.max(1, Math.min(TOUR.length, Number(found?.[1] ?? 1)));
}

/** The page's address behind a stop's: "#tour/4?wo=mixing" shows "#by-hand?wo=mixing". */
export function pageAddress(stop: number, hash: string, evidence: Evidence | null): string {
  const { page, opens } = TOUR[stop - 1];
  const own = fieldsAt(hash);
  if (evidence && opens)
    for (const [name, value] of Object.entries(opens(evidence))) if (!own.has(name)) own.set(name, String(value));
  return `#${page}?${own}`;
}

/** And back: the stop's address, for the state that its page is in. */
export function stopAddress(stop: number, address: string): string {
  const fields = queryOf(Object.fromEntries(fieldsAt(address)));
  return `#tour/${stop}${fields ? `?${fields}` : ""}`;
}
