// Das Mikroskop: seine Seite, und was es zu lesen bekommt.
import type en from "../en/microscope";

export default {
  triangle: "Warum ein Dreieck?",
  square: "Warum ein Quadrat?",
  pattern: "Was ist zu sehen?",

  regions: {
    all: "Alle Köpfe",
    trace: "Spur",
    head: "Ein Kopf",
    role: "Was dieser Kopf ist",
    attribution: "Logit-Attribution",
    next: "Nächstes Token",
    headRight: "Ein Kopf, rechts",
    both: "Links und rechts",
    nextRight: "Nächstes Token, rechts",
    attributionRight: "Logit-Attribution, rechts",
  },
  compare: "Vergleichen",
  compareWhy: "Einen zweiten Text oder ein anderes Modell danebenstellen",
  close: "Schließen",

  sentence: "Satz",
  textRight: "Text rechts",
  type: "Schreib einen Satz",
  nextInLine: "als Nächstes an der Reihe",
  inLine: (place: number) => `Nummer ${place} in der Reihe`,
  far: (what: string, done: number, total: number) => `${what}, ${done} von ${total}`,
  working: "wird berechnet",

  tokens: "Token",
  weight: (weight: string) => `, Gewicht ${weight}`,
  bars: "Balken: was",
  onTheRight: "Rechts: was",
  readsFrom: "liest, gefragt von",

  typeOrPick: "Schreib einen Satz oder wähle ein Beispiel. Nichts verlässt diesen Rechner.",
  beginning: (read: string) => `Von diesem Text werden nur die ersten ${read} Token gelesen.`,
  truncated: (length: string, read: string) =>
    `Der Text hat ${length} Token, und dieses Modell liest ${read}. Du siehst die ersten ${read}.`,
  beyondTraining: (read: string, trained: string) =>
    `Der Text hat ${read} Token. Dieses Modell wurde mit Texten bis ${trained} trainiert: Was seine Köpfe darüber hinaus tun, hat ihnen niemand beigebracht.`,
  reading: "Der Satz wird gelesen",
  openingModel: "Das Modell wird geöffnet",

  model: "Modell",
  modelRight: "Modell rechts",
  another: "ein anderes …",
  nameOrFolder: "Name oder Ordner eines Modells",
  hubOrFolder: "ein Name im Hub oder ein Ordner",
  open: "Öffnen",
  opening: "Wird geöffnet",
  cancel: "Abbrechen",

  evidence: {
    attention: "Aufmerksamkeit",
    reading: "hebt sein Token",
    share: "schiebt den Namen",
    effect: "wirkt auf Mover",
    raises: (token: string) => `hebt: ${token}`,
    nextBest: (score: string) => `nächstbester ${score}`,
    lost: "fehlt ohne ihn",
  },
} satisfies typeof en;
