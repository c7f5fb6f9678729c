// Eine veröffentlichte Seite: was sie ohne Python nicht kann, was in ihr steckt, wie man sie zitiert.
import type en from "../en/published";

export default {
  needsPython: (command) =>
    `Das braucht headscope auf deinem Rechner. Installiere es mit: pip install headscope, und starte: ${command}`,
  needs: (command) => `Das braucht headscope auf deinem Rechner: ${command}`,
  onYourMachine: "Das braucht headscope auf deinem Rechner:",
  computedWhen: "von headscope, als diese Seite gemacht wurde",
  storedAnswer: "Von headscope für dieses Beispiel berechnet, als diese Seite gemacht wurde.",
  docs: "Dokumentation",
  about: "Über diese Seite",
  made: (version) =>
    `Gemacht mit headscope ${version}. Das Modell läuft in deinem Browser; was du tippst, verlässt ihn nicht.`,
  model: (title, licence) => `${title}; Lizenz der Gewichte: ${licence}`,
  source: (source) => `Quelle: ${source}`,
  checked: (verified) => `Geprüft, als diese Seite gemacht wurde: ${verified}.`,
  notHere: (title, why) => `${title} selbst ist nicht auf dieser Seite: ${why}. Gespeicherte Blicke stehen unten.`,
  looks: "Gespeicherte Blicke",
  install: (command) => `Dasselbe auf deinem Rechner: ${command}`,
  cite: "Zitieren",
  citationFile: "Wie man headscope zitiert (CITATION.cff)",
  missing: (file, status) => `${file} fehlt auf dieser Seite (${status}).`,
  broken: "Diese Seite ist unvollständig: eine Datei fehlt. Veröffentliche sie neu und kopiere den ganzen Ordner.",
} satisfies typeof en;
