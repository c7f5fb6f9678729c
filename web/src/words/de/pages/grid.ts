// Das Raster der Köpfe im Mikroskop.
import type en from "../../en/pages/grid";

const grouped = (count: number) => count.toLocaleString("en").replaceAll(",", "\u202f");
const plural = (count: number, one: string, many: string) => `${grouped(count)} ${count === 1 ? one : many}`;

export default {
  layers: (count: number) => plural(count, "Schicht", "Schichten"),
  sites: (count: number) => plural(count, "Stelle", "Stellen"),
  heads: (count: number) => plural(count, "Kopf", "Köpfe"),
  kvHeads: (count: number) => plural(count, "KV-Kopf", "KV-Köpfe"),

  show: "Zeigen",
  allHeads: "alle Köpfe",
  nextWord: "nächstes Wort",
  importance: "Wichtigkeit",
  named: "Köpfe mit Namen",
  noName: (count: number) => `kein Name (${count})`,
  order: "Reihenfolge der Köpfe",
  orders: { layers: "Schichten", ranked: "Rang" },

  head: (name: string) => `Kopf ${name}`,
  walk: "Alle Köpfe, nach Schicht und Kopf. Pfeiltasten gehen weiter.",
  score: "Score",
  bestFirst: (columns: number) => `beste zuerst, ${columns} je Zeile`,
  save: "das Raster",
  picture: (model: string) => `${model}, alle Köpfe`,
  column: "Kopf",

  darker: "Je dunkler, desto mehr spricht ein Kopf für",
  orAgainst: " oder dagegen. Unter dem Zeiger: sein Muster.",
  otherHeads:
    "Die beiden Modelle haben verschiedene Köpfe, daher lassen sich ihre Raster nicht vergleichen. Du siehst das erste.",
  rightMinusLeft: (title: string) => `${title}, rechts minus links:`,
  blue: "Blau",
  moreRight: "ist rechts mehr,",
  ochre: "Ocker",
  moreLeft: "links mehr.",
  differently:
    "Je dunkler, desto verschiedener antwortet ein Kopf links und rechts: der größte Unterschied unter den Fragen nach Anteilen.",
  askedAt: (tokens: number) => `Gefragt an ${grouped(tokens)} Token dieses Textes.`,
  nowhere: "In diesem Text gibt es keine Stelle, an der sich das fragen lässt.",
  likeliest: "das wahrscheinlichste nächste Token",
  whichPush: "Welche Köpfe sprechen für",
  ratherThan: " statt ",
  againstIt: ", welche dagegen?",
  lossOn: (text: string) =>
    `Wie sehr sich der Verlust auf ${text} ohne einen Kopf ändern würde, in erster Ordnung, in Nats je Token.`,
  firstTokens: (count: string) => `den ersten ${count} Token`,
  thisText: "diesem Text",
  measuring: "Es wird gemessen, wie wichtig jeder Kopf auf diesem Text ist.",
  noRole:
    "Geprüft, aber keine Rolle verdient. Die meisten Rollen sind selten; viele Köpfe tun mehreres, oder nichts, was einen Namen hat.",
  earned: (heads: string, all: string, only: string) =>
    `${heads} von ${all} Köpfen haben sich diesen Namen verdient, ${only} davon keinen weiteren.`,
  haveName: (all: string) => `von ${all} Köpfen haben einen Namen`,
  resting: (jobs: string, resting: string) =>
    `: ${jobs} für eine Aufgabe, ${resting} nur für das Ruhen auf dem ersten Token`,
  haveNone: (heads: number): string => (heads === 1 ? "hat keinen." : "haben keinen."),
  untested: "Köpfe. Noch keiner wurde auf einen Namen geprüft.",

  papers: "Köpfe, von denen Veröffentlichungen sprechen",
  outcomes: {
    agrees: "diese Gewichte stimmen überein",
    differs: "diese Gewichte weichen ab",
    "not tested": "hier nicht geprüft",
  },
  rank: (score: string, rank: number | null) => `: ${score}, Rang ${rank}`,
  published: (score: string) => `; veröffentlicht ${score}`,
  marks: "● diese Gewichte stimmen überein · ○ sie weichen ab · · nicht geprüft",
} satisfies typeof en;
