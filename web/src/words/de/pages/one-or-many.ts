// Einer oder viele.
import type en from "../../en/pages/one-or-many";

export default {
  tab: "Einer oder viele · headscope",
  title: "Ein Kopf oder viele",
  introFound: (many: string, found: string, wide: string, alone: string) =>
    `Verlange von einem Token zwei Dinge zugleich, bei gleich vielen Parametern: ${many} finden beides in ${found} der Fälle, ${wide} in ${alone}.`,
  caught: (with_: string) => `Aber gib einem Kopf ${with_}, und er holt auf.`,
  orA: " oder ",
  notCaught: "Nichts, was wir einem Kopf stattdessen gaben, ließ ihn aufholen.",
  intro: "Verlange von einem Token zwei Dinge zugleich, bei gleich vielen Parametern.",
  attempt:
    "Teile die Breite unten in immer mehr Köpfe und sieh, wo es am besten geht. Lass es dann hier laufen: Stimmt dein Rechner zu?",
  training: (what: string, done: number, planned: number, seconds: number) =>
    `trainiert: ${what}, ${done} von ${planned} fertig, ${seconds} s`,
  waiting: (seconds: number) => `wartet auf den Rechner, ${seconds} s`,
  split: (heads: number, size: number) => {
    const numbers = `${size} ${size === 1 ? "Zahl" : "Zahlen"}`;
    const questions = `${heads} ${heads === 1 ? "Frage" : "Fragen"}`;
    return `${heads} ${heads === 1 ? "Kopf" : "Köpfe"} mit je ${numbers}: ${questions} zugleich, jede mit ${numbers} gestellt. Die Parameter bleiben gleich viele.`;
  },
  stop: "Anhalten",
  budget: (seeds: number, steps: string) => `${seeds} Startwerte, ${steps} Schritte, auf diesem Rechner`,
  unseen: "beide richtig, in nie gesehenen Zeilen",
  runHere: "Hier laufen lassen",
  theTask: "Die Aufgabe",
  taskSays: "Schlüssel mit Werten, in beliebiger Reihenfolge; das letzte Token fragt nach zweien",
  roles: "hier sagt das Token jedes Wertes selbst, wofür er ist",
  enough: "Wo ein Kopf genügt",
  legend: (seeds: number, steps: string, width: number) =>
    `Punkt: Mittelwert von ${seeds} Startwerten. Linie: 95-%-Intervall (Student-t). Striche: jeder Startwert. Gepunktet: Raten. ${steps} Schritte, Breite ${width}.`,
  cut: "Eine Breite, in Köpfe geteilt",
  width: "Breite",
  widthLabel: "Breite",
  heads: "Köpfe",
  headsLabel: "Köpfe",
  headsOf: (heads: number, size: number) => `${heads} Köpfe mit je ${size}`,
  runCut: (heads: number, size: number) => `${heads} × ${size} hier laufen lassen`,
  cutsSay: "Was die Teilungen sagen",
  fetching: "Die Ergebnisse werden geholt",

  layers: (count: number) => `, ${count} Schichten`,
  here: (percent: string) => `hier ${percent}`,
  seedsOf: (solved: number, all: number) => `${solved} von ${all} Startwerten`,
  cutInto: (width: number, heads: number, size: number) => `${width} Zahlen, geteilt in ${heads} Köpfe mit je ${size}`,
  partitionTitle: (width: number) => `Eine Breite von ${width}, in Köpfe geteilt`,
  pictureTitle: (width: number) => `Eine Breite von ${width}, in Köpfe geteilt`,
  pictureNote: "Anteil der Zeilen mit beiden Werten richtig; Striche sind Startwerte, Linien 95-%-Intervalle.",
  bothFound: "Beide Werte gefunden",
  ticks: "Striche: Startwerte · Linie: 95-%-Intervall",
  openRun: " · offen: hier gelaufen",
  partition: "die Teilung",
  chosen: (title: string, heads: number, size: number) =>
    `${title}. ${heads} Köpfe mit je ${size} gewählt. Pfeiltasten wählen.`,
  notMeasured: "Für diese Fassung nicht gemessen. Lass es hier laufen.",

  oneRow: "Eine Zeile der Aufgabe",
  answer: "Antwort",
  another: "Eine andere Zeile",
  task: (first: string, second: string, one: number, two: number) =>
    `Das letzte Token muss den Wert von ${first} und den Wert von ${second} heimbringen, in dieser Reihenfolge. Ein Kopf bringt einen Mittelwert: halb ${one}, halb ${two}, und keine Spur davon, wonach zuerst gefragt war. Zwei Köpfe bringen je einen Wert.`,
} satisfies typeof en;
