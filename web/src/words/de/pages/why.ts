// Warum ein Kopf dorthin blickt.
import type en from "../../en/pages/why";

export default {
  asking: "Drücke eine Zelle, um zu fragen, warum.",
  name: "Warum dieser Kopf dorthin blickt",
  close: "Schließen",
  working: "Der Score wird zerlegt …",
  because: (head: string, verb: string, key: string, reason: string, part: string, total: string) =>
    `**${head}** ${verb} *${key}*, denn ${reason}: ${part} von ${total}.`,
  noneAlone: (head: string, verb: string, key: string, total: string, largest: string, part: string) =>
    `**${head}** ${verb} *${key}* mit ${total}; kein einzelner Schreiber erklärt es, der größte ist **${largest}** (${part}).`,
  bothWays: (
    head: string,
    verb: string,
    key: string,
    total: string,
    up: string,
    more: string,
    down: string,
    less: string,
  ) =>
    `**${head}** ${verb} *${key}*, ${total} bleiben übrig: **${up}** spricht dafür (${more}), **${down}** dagegen (${less}).`,
  place: (head: string, verb: string, key: string, part: string, total: string, back: number) =>
    `**${head}** ${verb} *${key}* wegen der Stelle, ${back} zurück: ${part} von ${total}. Ein anderes Token dort täte es auch.`,
  twoWords: (head: string, verb: string, key: string, query: string, total: string) =>
    `**${head}** ${verb} *${key}* von *${query}* aus mit ${total}: Dort stehen bisher nur die Wörter selbst.`,
  single: (head: string, score: string) =>
    `**${head}** sieht hier nur einen Schlüssel, also gibt es nichts zu vergleichen. Der Score ist ${score}.`,
  reads: "liest",
  restsOn: "ruht auf",
  passesOver: "übergeht",
  marked: (writer: string, word: string) => `**${writer}** hat es als das Wort nach *${word}* markiert`,
  brought: (writer: string, word: string) => `**${writer}** hatte ihm *${word}* gebracht`,
  rested: (writer: string) => `**${writer}** schrieb dort, während er auf dem ersten Token ruhte`,
  itself: (writer: string) => `**${writer}** schrieb dort vom Wort selbst`,
  word: "das Wort selbst genügt",
  made: (writer: string) => `**${writer}** hat etwas daraus gemacht`,
  next: (writer: string, part: string) => `Danach kommt **${writer}** (${part}).`,
  same: (writer: string, part: string) => `**${writer}** schrieb dort dasselbe (${part}).`,
  asked: (writers: string, query: string) => `Die Frage kommt vor allem von ${writers}, bei *${query}*.`,
  placePart: (part: string) => `${part} davon kommt allein von der Stelle.`,
  sink: (weight: string) => `Eine gelernte Senke nimmt ${weight} dieser Zeile.`,
  relative: "verglichen mit",
  mean: "dem Mittel der Zeile",
  other: "einem anderen Schlüssel",
  others: "den anderen",
  otherKey: "Der Schlüssel, mit dem verglichen wird",
  sumMean: "Mittel",
  sumOthers: "andere",
  score: "Score",
  whoAsked: "Wer hat gefragt",
  whoAnswered: "Wer hat geantwortet",
  at: "bei",
  read: "las",
  restOf: (count: number) => (count === 1 ? "1 weiterer" : `${count} weitere`),
  fewer: "weniger",
  all: "alle",
  distance: "Abstand",
  cap: "Deckel",
  pairs: (count: number, sum: string) => `${count} Paare: ${sum}`,
  morePairs: (count: string, sum: string) => `${count} weitere: ${sum}`,
  cancel: "sie heben sich auf",
  withOne: (writer: string) => `mit ${writer} allein`,
  columns:
    "Wer gefragt und wer geantwortet hat; Pfeiltasten gehen weiter, Eingabe heftet an, rechts und links wechseln die Spalte",
  embedding: "Einbettung",
  position: "Stelle",
  bias: "Bias",
  headName: (head: string) => `Kopf ${head}`,
  whatItDid: (token: string, head: string) => `was er bei *${token}* tat, bevor ${head} kam`,
  itRead: (word: string, weight: string, token: string) =>
    `Er las *${word}* mit ${weight} und schrieb das nach *${token}*.`,
  easier: (part: string, total: string) => `Dort macht er das Token leichter zu finden: **${part}** von ${total}.`,
  harder: (part: string, total: string) => `Dort macht er das Token schwerer zu finden: **${part}** von ${total}.`,
  asksMore: (part: string, total: string) => `Dort fragt er nach dem Token: **${part}** von ${total}.`,
  asksLess: (part: string, total: string) => `Dort fragt er nach anderen Token: **${part}** von ${total}.`,
  noPattern:
    "Kein Muster: Dieser Teil arbeitet an einer Stelle, mit dem, was bis dahin dort steht. Hier endet die Kette genauer Summen.",
  cameIn: "Das Wort, wie es hereinkam.",
  ownBias: "Was der Leser selbst hinzufügt: seine Biases und der Versatz seiner Norm.",
  whyDidIt: (head: string, word: string) => `Warum las ${head} ${word}?`,
  patternOf: (head: string) => `Muster von ${head}`,
  cutTitle: "Diesen Pfad durchtrennen",
  intoQuery: (token: string) => `Anfrage bei *${token}*`,
  intoKey: (token: string) => `Schlüssel bei *${token}*`,
  intoValue: (token: string) => `Wert von *${token}*`,
  cut: "durchtrennt",
  cutting: "Alles nach dem Schnitt wird neu berechnet …",
  asIs: "wie es ist",
  predicted: "vorhergesagt",
  truth: "wahr",
  weightOn: (token: string) => `Gewicht auf *${token}*`,
  logitOf: (token: string) => `Logit von *${token}*`,
  chanceOf: (token: string) => `Chance von *${token}*`,
  legend:
    "● wie es ist, │ vorhergesagt: das Gewicht aus der Zerlegung, die Norm festgehalten; das Logit aus den wahren Gewichten, spätere Teile festgehalten. ○ wahr: Normen und alles danach neu berechnet.",
  otherSign: (predicted: string, truth: string, parts: string) =>
    `Die Vorhersage hat das falsche Vorzeichen: Das Logit sollte sich um **${predicted}** bewegen und bewegt sich um **${truth}**, weil spätere Teile antworten, vor allem ${parts}.`,
  leans: (predicted: string, truth: string, parts: string) =>
    `Das Logit sollte sich um **${predicted}** bewegen und bewegt sich um **${truth}**: Spätere Teile stützen sich auf diesen Pfad, vor allem ${parts}.`,
  answersBack: (predicted: string, truth: string, parts: string) =>
    `Das Logit sollte sich um **${predicted}** bewegen und bewegt sich um **${truth}**: Der Rest gleicht aus, vor allem ${parts}.`,
  agrees: (predicted: string, truth: string) =>
    `Das Logit sollte sich um **${predicted}** bewegen und bewegt sich um **${truth}**.`,
  notInFile:
    "Diese Datei enthält die Pfeile ihrer Spur. Für andere öffne den Text in headscope: Eine Datei hat kein Modell, das man fragen kann.",
  save: "diese Erklärung",
  picture: (model: string, head: string, query: string, key: string) =>
    `${model}: warum Kopf ${head} von „${query}“ auf „${key}“ blickt`,
  table: ["Seite", "Schreiber", "Score", "gelesen", "Gewicht"],
  needsModel: "Warum ein Kopf dorthin blickt, weiß nur das Modell: Öffne diesen Text in headscope.",
  pinnedNote: (writer: string) => `Dünner Rahmen: der Schreiber, nach dem du gefragt hast, ${writer}.`,
} satisfies typeof en;
