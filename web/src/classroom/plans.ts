// Two lesson plans, in minutes; docs/how-to/teach.md says what happens in each part.
export type PlanLength = 60 | 90;
export type PlanPart = "start" | "one" | "two" | "mixed" | "real" | "cards" | "back";

export const PLANS: Record<PlanLength, { part: PlanPart; minutes: number }[]> = {
  60: [
    { part: "start", minutes: 8 },
    { part: "one", minutes: 14 },
    { part: "two", minutes: 12 },
    { part: "mixed", minutes: 10 },
    { part: "real", minutes: 10 },
    { part: "back", minutes: 6 },
  ],
  90: [
    { part: "start", minutes: 8 },
    { part: "one", minutes: 18 },
    { part: "two", minutes: 16 },
    { part: "mixed", minutes: 14 },
    { part: "real", minutes: 16 },
    { part: "cards", minutes: 10 },
    { part: "back", minutes: 8 },
  ],
};
