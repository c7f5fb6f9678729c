// Eine Vorhersage, zurückverfolgt bis zu den Token, von denen sie kommt.
import type en from "../../en/pages/trace";

export default {
  open: "Zurückverfolgen",
  openTitle: "Welche Köpfe diese Vorhersage gebracht haben, von welchen Token, und warum sie dorthin blickten",
  close: "Spur schließen",
  title: (token: string) => `Woher kommt *${token}*?`,
  copied: (token: string, writer: string, before: string, head: string) =>
    `Das Modell hat *${token}* von dort kopiert, wo es vorher stand: Kopf **${writer}** schrieb „nach *${before}*“ darauf, Kopf **${head}** fand es.`,
  carried: (token: string, head: string, word: string, share: string) =>
    `Von den Köpfen trägt **${head}** am meisten zu *${token}* bei, durch das, was er bei *${word}* las (${share}).`,
  noHead: (token: string) =>
    `Kein Kopf über der Schwelle bewegt etwas zu *${token}*: Es kommt von dem, was an dieser Stelle steht.`,
  largest: (part: string, share: string, total: string) => `Der größte Teil ist **${part}**: ${share} von ${total}.`,
  floor: "weglassen unter",
  working: "Die Vorhersage wird zurückverfolgt …",
  layer: (layer: string) => `Schicht ${layer}`,
  sum: "Die Summe",
  logitOf: (token: string) => `Logit von *${token}*`,
  constant: "Konstante",
  leftOut: (count: number) => (count === 1 ? "1 weiterer" : `${count} weitere`),
  leftOutLine: (count: number, sum: string, up: string, down: string) =>
    `Nicht gezeichnet: ${count} Teile unter der Schwelle, zusammen ${sum}: ${up} hinauf, ${down} hinab. Summen enden an einem MLP; was an ihm hängt, zeigt ein Schnitt.`,
  below: (count: number, sum: string, up: string, down: string) => `${count} weitere: ${sum} (${up} ${down})`,
  total: "Logit",
  rests: "ruht auf dem ersten Token",
  restsList: (heads: string) => `Auf dem ersten Token ruhen: ${heads}.`,
  read: (word: string, share: string, weight: string) => `las *${word}*: ${share} (Gewicht ${weight})`,
  foundBy: "gefunden durch",
  askedBy: "gefragt von",
  wroteIt: "was er trug, schrieben",
  cut: (writer: string) => `${writer} durchtrennen`,
  why: "Warum dort?",
  back: "Die ganze Summe",
  ends: "hier endet die Kette genauer Summen",
  keyLine: (writer: string, place: string, head: string, part: string, total: string) =>
    `${writer} bei ${place} → Schlüssel von ${head}: ${part} von ${total}`,
  queryLine: (writer: string, head: string, part: string, total: string) =>
    `${writer} → Anfrage von ${head}: ${part} von ${total}`,
  valueLine: (word: string, head: string, share: string) => `${word} → ${head}: trug ${share}`,
  ribbon: (part: string, share: string, token: string) => `${part} → ${token}: ${share}`,
  adds: "trägt zum Logit bei",
  carries: "trägt, was gelesen wurde",
  found: "warum es gefunden wurde (Schlüssel)",
  asks: "wer fragte (Anfrage)",
  head: "Kopf",
  mlp: "MLP",
  width: "Breite: Anteil am Logit",
  hint: "Zeige auf eine Linie, um ihre Zahl zu sehen; drücke einen Teil, um ihm zu folgen.",
  folded: (count: number) => `… ${count} Token`,
  picture: (token: string) => `Wie ${token} zustande kam: Token links, die Vorhersage rechts`,
  notInFile:
    "Diese Datei enthält die Spur des wahrscheinlichsten Tokens nach dem letzten. Für andere öffne den Text in headscope.",
  save: "diese Spur",
  saved: (model: string, token: string) => `${model}: woher „${token}“ kommt`,
  table: ["von", "nach", "Art", "Wert", "Einheit"],
  units: { logit: "Logit", score: "Score", weight: "Gewicht" },
  needsModel: "Eine Spur braucht das Modell: Öffne diesen Text in headscope.",
} satisfies typeof en;
