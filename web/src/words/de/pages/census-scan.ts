// Texte der Zählung eines eingefügten Textes.
import type { Words } from "../../words";

const censusScan: Words["censusScan"] = {
  title: "Einen eigenen Text zählen",
  says: "Füge einen Text ein. Jedem Kopf des Modells wird an jedem Token jede Frage gestellt; heraus kommt ein Zensus wie dieser, nur für dich.",
  label: "Text für die Zählung",
  placeholder: "Ein paar hundert Wörter oder mehr: je länger der Text, desto enger die Intervalle",
  model: "Modell",
  scan: "Diesen Text zählen",
  stop: "Anhalten",
  length: (now, most) => `${now} von ${most} Zeichen`,
  tooLong: (over) => `${over} Zeichen zu viel`,
  waiting: "wartet, bis die Reihe daran kommt",
  reading: "liest den Text",
  done: (tokens) => `${tokens} Tokens gezählt`,
  far: (done, total) => `${done} von ${total} Tokens`,
  stopped: "Angehalten. Nichts wurde behalten.",
  download: "Diesen Zensus herunterladen",
  kept: "Die Seite behält deine letzten drei Zählungen, bis das Programm endet; headscope serve --census öffnet die heruntergeladene Datei wieder.",
};

export default censusScan;
