// Roles from the battery's report: findings, evidence rows and scores of a head.
import type { Finding, Roles, RoleTrial } from "../../source/source";
import { short } from "../../format";
import { words } from "../../words/words";

export const NAMELESS = "role:";
export const isRole = (question: string): boolean => question.startsWith("role:");
export const asRole = (role: string): string => `role:${role}`;

export interface EvidenceRow {
  name: string;
  value: number;
  top: number;
  text: string;
  note: string;
  interval?: [number, number];
  chance?: [number, number];
  threshold?: number;
}

export const trialOf = (roles: Roles, question: string): RoleTrial | undefined =>
  roles.trials.find((trial) => asRole(trial.role) === question);

/** A head's roles, the strongest first. */
export const findingsOf = (roles: Roles, head: string): Finding[] =>
  roles.findings.filter((finding) => finding.head === head).sort((a, b) => Number(b.strongest) - Number(a.strongest));

/** For the grid: the score of every head that has the role, and nothing for the others. */
export function roleScores(roles: Roles, question: string, heads: string[]): Float32Array {
  if (question === NAMELESS) {
    const named = new Set(roles.findings.map((finding) => finding.head));
    return Float32Array.from(heads, (head) => (named.has(head) ? NaN : 1));
  }
  const scores = new Map(
    roles.findings
      .filter((finding) => asRole(finding.role) === question)
      .map((finding) => [finding.head, finding.evidence[0].score]),
  );
  return Float32Array.from(heads, (head) => scores.get(head) ?? NaN);
}

function measured(measure: string): { name: string; share: boolean } {
  const [kind, of] = measure.split(": ");
  const { attention, reading, share, effect, raises } = words.microscope.evidence;
  const kinds: Record<string, string> = { attention, reading, share, effect };
  const name = kind === "reading" && of !== "itself" ? raises(of) : (kinds[kind] ?? measure);
  return { name, share: kind === "attention" || kind === "reading" };
}

/** A forest plot of one finding: each piece of evidence, then what is lost without the head. */
export function evidenceRows(finding: Finding): EvidenceRow[] {
  const rows: EvidenceRow[] = finding.evidence.map((piece) => {
    const { name, share } = measured(piece.measure);
    return {
      name,
      value: piece.score,
      top: share ? 1 : Math.max(piece.high, piece.threshold) * 1.25,
      text: short(piece.score),
      note: words.microscope.evidence.nextBest(short(piece.rival)),
      interval: [piece.low, piece.high],
      chance: [0, piece.rival],
      threshold: piece.threshold,
    };
  });
  const lost = finding.ablated;
  if (lost)
    rows.push({
      name: words.microscope.evidence.lost,
      value: lost.loss,
      top: Math.max(0.3, lost.high * 1.2),
      text: short(lost.loss),
      note: lost.task.split(", ").at(-1)!,
      interval: [lost.low, lost.high],
    });
  return rows;
}

/** The roles that a head without one came nearest to: its lead over its strongest rival, relative to the threshold. */
export function nearest(roles: Roles, head: string, most: number): EvidenceRow[] {
  return roles.trials
    .flatMap((trial) => {
      const [score, rival] = [trial.scores[head], trial.rivals[head] ?? 0];
      return trial.tested && typeof score === "number" && trial.threshold
        ? [{ trial, score, rival, lead: (score - rival) / trial.threshold }]
        : [];
    })
    .sort((a, b) => b.lead - a.lead)
    .slice(0, most)
    .map(({ trial, score, rival }) => ({
      name: trial.role,
      value: score,
      top: 1,
      text: short(score),
      note: words.microscope.evidence.nextBest(short(rival)),
      chance: [0, rival] as [number, number],
      threshold: trial.threshold!,
    }));
}
