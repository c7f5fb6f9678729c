// Jeder Kopf in Worten: der Satz eines Kopfes, was er erklärt, und das Modell auf Regeln.
import type en from "../../en/pages/rules";

/** Wohin eine Regel zeigt, im Akkusativ nach „geht auf“. */
const PHRASES: Record<string, string> = {
  "first token": "das erste Token",
  itself: "das Token selbst",
  "previous token": "das vorherige Token",
  "next token": "das nächste Token",
  "all tokens": "alle Tokens gleich",
  copies: "frühere Kopien des Tokens",
  "after a copy": "das, was einer früheren Kopie folgte",
  "after a copy of two": "das, was einer früheren Kopie der letzten zwei Tokens folgte",
  "after a copied content word": "das, was einer früheren Kopie eines Inhaltsworts folgte",
  "two after a copy": "das, was zwei Stellen nach einer früheren Kopie stand",
  "same word anywhere": "dasselbe Wort in jeder Schreibung",
  "after the same word": "das, was demselben Wort in jeder Schreibung folgte",
  punctuation: "Satzzeichen",
  separators: "Zeilenumbrüche und andere Trenner",
  "sentence ends": "Satzenden",
  commas: "Kommas",
  "function words": "Funktionswörter",
  "content words": "Inhaltswörter",
  capitals: "großgeschriebene Wörter",
  digits: "Ziffern",
  "code tokens": "Code-Tokens",
  "word pieces": "Stücke im Wortinneren",
  "start of word": "das erste Stück des Wortes",
  "start of previous word": "das erste Stück des vorigen Wortes",
  "start of sentence": "das erste Token des Satzes",
  "start of line": "das erste Token der Zeile",
  "start of previous line": "das erste Token der Zeile davor",
  "same word": "frühere Stücke des Wortes",
  "previous word": "das vorige Wort",
  "word before the previous": "das vorvorige Wort",
  "same sentence": "denselben Satz",
  "previous sentence": "den Satz davor",
  "matching bracket": "die Klammer oder das Anführungszeichen, die das Token schließt",
  "open bracket": "die Klammer oder das Anführungszeichen, die offen ist",
};

/** Eine Regel aus der Liste, „X, near 8“, „last X“, „X before Y“, „decay 8“ oder „3 back“; sonst nichts. */
function german(name: string): string | undefined {
  if (name in PHRASES) return PHRASES[name];
  const near = /^(.+), near ([\d.]+)$/.exec(name);
  if (near && german(near[1])) return `${german(near[1])} in der Nähe (etwa ${near[2]} Tokens weit)`;
  const last = /^last (.+)$/.exec(name);
  if (last && german(last[1])) return `${german(last[1])}, und nur das Letzte davon`;
  const before = /^(.+) before (.+)$/.exec(name);
  if (before && german(before[1]) && german(before[2]))
    return `${german(before[1])}, wo direkt danach ${german(before[2])} stehen`;
  const decay = /^decay ([\d.]+)$/.exec(name);
  if (decay) return `nahe Tokens (etwa ${decay[1]} weit)`;
  const step = /^(\d+) (back|ahead)$/.exec(name);
  return step ? `das Token ${step[1]} Stellen ${step[2] === "back" ? "davor" : "danach"}` : undefined;
}

export default {
  rests: (first: string, clauses: string, left: string) =>
    `Ruht auf dem ersten Token (${first}). Vom Rest gehen ${clauses}; ${left}.`,
  hardlyRests: (first: string, clauses: string, left: string) =>
    `Ruht kaum auf dem ersten Token (${first}). Vom Rest gehen ${clauses}; ${left}.`,
  restsOnly: (first: string, left: string) => `Ruht auf dem ersten Token (${first}). Vom Rest: ${left}.`,
  hardlyRestsOnly: (first: string, left: string) => `Ruht kaum auf dem ersten Token (${first}). Vom Rest: ${left}.`,
  left: (left: string) => `${left} bleiben unerklärt`,
  leftOnContent: (left: string, content: string) =>
    `${left} bleiben unerklärt, wovon ${content} vom Inhalt abhängen: davon, was jedes Token Schicht für Schicht von dem davor gelesen hat`,
  goesTo: (part: string, phrase: string) => `${part} auf ${phrase}`,
  goesToWhere: (part: string, phrase: string, percent: string) =>
    `${part} auf ${phrase}, wo es das gibt (an ${percent} % der Stellen)`,
  phrase: (name: string, phrase: string) => german(String(name)) ?? phrase,
  example: (query: string, key: string, weight: string, byRules: string) =>
    `Zum Beispiel liest „${query}“ das Token „${key}“ mit ${weight}, nach seinen Regeln mit ${byRules}.`,

  title: "In Worten",
  measured: (rules: string, places: string, texts: string) =>
    `Gemessen auf ${texts} Texten (${places} ihrer Token), mit ${rules} ${rules === "1" ? "Regel" : "Regeln"}.`,
  unfitted:
    "Noch keine Worte: Regeln beschreiben einen Kopf danach, wohin seine Aufmerksamkeit geht, und werden jedem Modell einmal angepasst.",
  fit: "In Worten sagen",
  fitting: "Jedem Kopf werden Regeln angepasst. Das Mikroskop geht derweil weiter.",
  fittingBy: (what: string, done: string, total: string) => `${what}: ${done} von ${total}`,
  stop: "Abbrechen",
  elsewhere: "Jemand anders lässt die Regeln dieses Modells gerade anpassen. Sie erscheinen hier, sobald sie da sind.",
  notHere: "Diese Seite enthält keine Regeln für dieses Modell. Öffne den Text in headscope, um sie zu bekommen.",
  notOfThisHead: "Regeln beschreiben Köpfe, mit denen ein Text sich selbst liest; dieser liest einen anderen.",

  bar: "Was die Regeln von seiner Aufmerksamkeit erklären",
  first: (part: string) => `erstes Token ${part}`,
  theRest: (part: string) => `der Rest ${part}`,
  position: (part: string) => `Position allein erklärt ${part}`,
  notExplained: "unerklärt",
  partTitle: (name: string, part: string) => `${name}: ${part} seiner Aufmerksamkeit neben dem ersten Token`,

  look: "Neben seiner Regel",
  close: "Schließen",
  onRules: (head: string) => `${head} auf Regeln`,
  onRulesTitle: "Diesen Kopf in der Vorhersage dorthin blicken lassen, wohin seine Regeln sagen",
  isOnRules: (head: string) => `${head} auf Regeln`,
  offRules: (head: string) => `${head} wieder lesen lassen`,
  allOnRules: "Alle Köpfe auf Regeln",
  noneOnRules: "Alle Köpfe lesen wieder",

  maps: "Muster, Regel, Unterschied",
  mapsSay: "dieser Text; zeige auf eine Zelle",
  pattern: "Muster",
  patternSays: "was er liest",
  rule: "Regel",
  ruleSays: "was die Worte sagen",
  difference: "Unterschied",
  differenceSays: "blau: liest es mehr, als die Regel sagt; ocker: weniger",
  cell: (query: string, key: string, weight: string, rule: string) =>
    `${query} liest ${key}: ${weight}, nach seinen Regeln ${rule}`,
  common: (share: string) => `In diesem Text haben Muster und Regel ${share} ihrer Masse gemeinsam.`,
  noMaps: "Eine gespeicherte Datei enthält den Satz, aber nicht, was die Regeln zu diesem Text sagen.",
  tooLong: (tokens: string, most: string) =>
    `Dieser Text hat ${tokens} Tokens; Muster und Regel werden bis ${most} gezeichnet.`,

  measures: "Wie gut sind die Worte?",
  measuresSay: "an Text, der nicht zum Anpassen diente",
  allOfIt: "alles",
  rest: "der Rest",
  gain: "Gewinn über Position",
  byPosition: (value: string) => `Position ${value}`,
  byChance: (value: string) => `Nullwert ${value}`,
  measuresKey:
    "Grau: die beste Mischung aus Position allein; beim Gewinn Regeln, die vertauschte Tokens lesen. Linie: 95-%-Intervall über Texte. „Alles“ schmeichelt Köpfen, die auf dem ersten Token ruhen; lies die anderen beiden.",

  content: "Wovon er inhaltlich abhängt",
  contentSays: "stärkste Richtung jedes Schaltkreises, in Tokens der gemessenen Texte",
  qkSays: (share: string) => `QK-Schaltkreis, ${share} davon: Queries wie`,
  qkThen: "suchen",
  ovSays: (share: string) => `OV-Schaltkreis, ${share} davon: Lesen von`,
  ovThen: "hebt",
  contentKey:
    "Aus den Gewichten allein, Tokens so, wie sie eingebettet werden: was frühere Schichten hinzufügen, ist nicht dabei. Je kleiner der Anteil, desto weniger sagt eine Richtung über den Kopf.",

  run: "Auf seinen Regeln",
  runSays: "was es kostet, Perplexität",
  runRules: "auf seinen Regeln",
  runPosition: "auf Position allein",
  runMean: "sein Mittelwert",
  measuring: "Es wird gemessen, was es kostet.",
  notMeasured: "Was es kostet, wurde nicht gemessen.",
  keeps: (share: string) =>
    `Die Regeln behalten ${share} von dem, was verloren geht, wenn der Kopf nur seinen Mittelwert sagt.`,
  keepsMore: (share: string, position: string) =>
    `Die Regeln behalten ${share} von dem, was verloren geht, wenn der Kopf nur seinen Mittelwert sagt; Position allein behält ${position}.`,
  keepsNothing: "Die Regeln behalten nichts von dem, was verloren geht, wenn der Kopf nur seinen Mittelwert sagt.",
  littleToKeep: "Sein Mittelwert kostet fast nichts, also gibt es wenig zu behalten.",
  predictions:
    "Schalte um, und das nächste Token unten wird mit diesem Kopf auf seinen Regeln vorhergesagt, und auf seinem Mittelwert für den Anteil, den sie nicht erklären.",

  group: "in Worten",
  showRest: "erklärter Anteil",
  showGain: "Gewinn über Position",
  strongest: "stärkste Regel",
  noteRest: "Je dunkler, desto mehr von der Aufmerksamkeit eines Kopfes neben dem ersten Token erklären seine Regeln.",
  noteGain: "Je dunkler, desto mehr erklären die Regeln eines Kopfes von dem, was Position allein unerklärt lässt.",
  recent: "nahe Tokens",
  noteStrongest: (heads: string, phrase: string) =>
    `${heads} ${heads === "1" ? "Kopf schickt" : "Köpfe schicken"} das meiste von dem, was erklärt ist, auf ${phrase}.`,

  write: "Schreib eine Regel, bekomm einen Kopf",
  writeSays:
    "Eine Regel sagt, wohin ein Kopf blickt. Hier werden daraus W_Q, W_K, W_V und W_O: keine Zahl ist trainiert. Wähle eine Regel oder schreib eine, wie „last commas“ oder „what followed an earlier copy“.",
  ruleField: "Regel",
  compile: "Übersetzen",
  hidden: "in Rauschen versteckt, neben Attrappen",
  hiddenTitle:
    "Den Residualstrom zufällig drehen, Rauschen dazugeben und in jede Schicht zwei Köpfe ohne Aufgabe setzen",
  compiled: (head: string, phrase: string) => `Kopf ${head} blickt auf ${phrase}.`,
  compiledShare: (share: string) =>
    `Von seiner Aufmerksamkeit landen ${share} dort, wo die Regel sagt, wo immer es ein Ziel gibt.`,
  compiledSize: (layers: string, heads: string, model: string, head: string) =>
    `Schichten: ${layers}, Köpfe in jeder: ${heads}, d_model: ${model}, d_head: ${head}`,
  matrix: (name: string, rows: string, columns: string) =>
    `${name}, ${rows} × ${columns}: jede Zelle ist das größte Gewicht ihres Teils; blau ist positiv, ocker negativ`,
  patternOf: (head: string) => `Muster des übersetzten Kopfes ${head}`,
  openCompiled: "Im Mikroskop öffnen",
  opening: "Wird geöffnet",
} satisfies typeof en;
