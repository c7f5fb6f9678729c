// Von Hand.
import type en from "../en/by-hand";

export default {
  notCausal:
    "Hier liest *it* das Wort **tired**, das später kommt: Dieses Beispiel ist nicht kausal. Ein Modell, das von links nach rechts schreibt, könnte nur lesen, was vor *it* steht; ein Encoder liest in beide Richtungen.",
  tab: "Von Hand · headscope",
  title: "Von Hand gerechnet",
  intro:
    "Zwei Köpfe lesen dasselbe Wort mit zwei verschiedenen Fragen; jeder bringt eine Summe aus Anteil × Wert heim, die beiden Summen werden aneinandergehängt, und W_O mischt sie.",
  attempt:
    "Zieh *animal* in Kopf 1 ganz herunter: Was es heimgebracht hat, verschwindet mit. Jede Zahl lässt sich überschreiben und jede Summe aufklappen.",
  reset: "Zurück zu den ersten Zahlen",
  example: "das gerechnete Beispiel",
  opening: "Das gerechnete Beispiel wird geöffnet",
  head: (head: number) => `Kopf ${head}`,
  headSmall: (head: number) => `Kopf ${head}`,
  together: "zusammen",
  unreadable: "Die Zahlen in dieser Adresse waren nicht lesbar; dies sind die ersten.",

  sentence: "Der Satz, mit den Anteilen beider Köpfe unter seinen Wörtern",
  bars: "Balken, von oben:",

  word: "Wort",
  itsShare: "sein Anteil, zum Ziehen",
  itsValue: "sein Wert",
  product: "Anteil × Wert",
  shareOf: (word: string, head: number) => `Anteil von ${word} in Kopf ${head}`,
  shareTyped: (word: string, head: number) => `Anteil von ${word} in Kopf ${head}, getippt`,
  valueOf: (at: number, word: string, head: number) => `Wert ${at} von ${word}, Kopf ${head}`,
  tooMuch: (by: string) => `${by} zu viel: aufteilen`,
  missing: (by: string) => `${by} fehlen: aufteilen`,
  showSum: (sum: string, at: number, value: string) => `${sum}, Zahl ${at}: ${value}. Summe zeigen`,

  concatenate: (heads: number, size: number) => `aneinanderhängen: ${heads} Köpfe × ${size} Zahlen = ${heads * size}`,
  mix: "Aneinanderhängen und mischen",
  endToEnd: "Aneinandergehängt, dann W_O",
  identity: "Identität",
  mixing: "Mischen",
  theIdentity: "Die Identität",
  numberOf: (head: number, at: number) => `o${"₀₁₂₃₄₅₆₇₈₉"[head]}, Zahl ${at}`,
  rowNumber: (name: string, at: number) => `${name}, Zahl ${at}`,
  cell: (name: string, row: number, column: number) => `${name}, Zeile ${row}, Spalte ${column}`,
  left: (count: number) =>
    `Die ${count} Zahlen links sind o₁ und o₂ hintereinander: nichts addiert, nichts ausgewählt. Mehr ist Aneinanderhängen nicht.`,
  saysIdentity:
    "Mit der Identität tut W_O nichts: y ist, was die Köpfe gesagt haben, jeder an seinem Platz. Stell auf Mischen um.",
  saysYours: "Dieses W_O ist deins: Jede Spalte sagt, wie viel von jeder Zahl links in eine Zahl von y eingeht.",
  saysMixing:
    "Dieses W_O mischt: Die ersten vier Zahlen von y sind die Hälfte dessen, was die Köpfe zusammen sagen, die letzten vier die Hälfte dessen, worin sie sich unterscheiden. Jede Zahl von y entsteht aus beiden Köpfen.",
  real: "Echte Modelle lernen W_O. Es wählt nicht zwischen Köpfen: Es addiert, was alle heimbringen.",

  whence: "Woher kommen solche Anteile?",
  fromX: (word: string) =>
    `Aus x. Dieselben acht Zahlen von *${word}*, zwei verschiedene W_Q, zwei verschiedene Fragen. Schlüssel und Werte sind hier für beide Köpfe dieselben, damit es klein bleibt; in einer echten Schicht hat jeder Kopf eigene.`,
  fromStart: (head: number) => `Kopf ${head} von Anfang an`,
  query: (word: string) =>
    `x von *${word}* mal W_Q ist die Anfrage: Multipliziere jede Zeile mit ihrer Zahl von x und addiere die Spalten.`,
  matrixOf: (head: number) => `W_Q von Kopf ${head}`,
  meets: (size: number, root: string) =>
    `Der Score ist Anfrage mal Schlüssel, Zahl für Zahl und addiert, geteilt durch ${root}: die Wurzel aus ${size}, der Länge eines Schlüssels. Softmax macht aus den Scores Anteile.`,
  softmaxLine: (word: string, score: string, power: string, sum: string, share: string) =>
    `${word}: e hoch ${score} ist ${power}; ${power} / ${sum} (die Summe für alle Wörter) = ${share}`,
  setByHand: (word: string, set: string, computed: string) =>
    `**${word}**: von Hand gesetzt ${set}, berechnet ${computed}.`,
  key: "Schlüssel",
  score: "Score",
  share: "Anteil",
  useShares: "Die berechneten Anteile übernehmen",

  invent: "Übung: zwei Köpfe erfinden",
  yourTurn: "Du bist dran: erfinde zwei Köpfe",
  inventSays: (word: string) =>
    `Erfinde zwei Köpfe für *${word}*: einen, der findet, wer gemeint ist, und einen, der findet, was darüber gesagt wird. Jeder verteilt genau 1. Wenn du magst, rechne aus, was jeder heimbringt: Anteil × Wert, Spalte für Spalte addiert.`,
  yours: (head: number) => `Dein Kopf ${head}`,
  yourShare: (head: number, word: string) => `Dein Kopf ${head}: ${word}`,
  yourShareTyped: (head: number, word: string) => `Dein Kopf ${head}: ${word}, getippt`,
  yourValue: (at: number, word: string, head: number) => `Wert ${at} von ${word}, dein Kopf ${head}`,
  bothEndToEnd: "o₁ und o₂ hintereinander",
  numbersToWrite: (count: number) => `schreib ${count} Zahlen`,
  sumAt: (name: string, at: string) => `${name}, Zahl ${at}`,
  checkHeads: "Meine Köpfe prüfen",
  praiseHeads: "Das sind zwei Köpfe, die einem Wort zwei Fragen stellen. Ein Kopf hätte dir nicht beides sagen können.",
  fork: "Übung: die Gabel zeichnen",
  fromMemory: "Aus dem Gedächtnis: zeichne die Gabel",
  forkPicture: "Die Gabel, aus dem Gedächtnis gezeichnet",
  theFork: "die Gabel",
  forkField: "Die Gabel",
  pressFirst:
    "Drück auf das Kästchen, in dem ein Pfeil beginnt, dann auf das, in dem er endet. Noch einmal dasselbe nimmt ihn weg.",
  pressNext: (box: string) => `Von ${box}: Drück jetzt auf das Kästchen, zu dem er führt.`,
  checkFork: "Meine Gabel prüfen",
  clear: "Leeren",
  noArrows: "Noch keine Pfeile",
  praiseFork:
    "Die Gabel, vollständig: Die Eingabe geht an beide Köpfe zugleich, ihre Antworten werden aneinandergehängt, und W_O mischt sie.",
  from: "von",
  to: "nach",

  heads: "Köpfe von Hand",
  wholeHeads: "Ganze Köpfe von Hand",
  nobody:
    "Diese hat niemand trainiert: Jede ihrer Zahlen wurde hingeschrieben. Sie lassen sich im Mikroskop öffnen wie jedes Modell.",
  layers: (count: number) => `${count} Schichten.`,
  open: "Im Mikroskop öffnen",
  openingHead: "Wird geöffnet",

  pictureTitle: (word: string, sentence: string) => `„${word}“ in: ${sentence}`,
  pictureJoined: (numbers: string) => `Hintereinander: ${numbers}`,
  pictureMixed: (numbers: string) => `Durch das mischende W_O: ${numbers}`,
} satisfies typeof en;
