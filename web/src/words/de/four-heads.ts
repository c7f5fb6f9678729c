// Vier Köpfe.
import type en from "../en/four-heads";

export default {
  nothing: "Für diesen Kopf gibt es in diesem Satz nichts zu finden: Jedes Wort ruht auf dem ersten.",
  paint: "Male, was er finden soll",
  twice: (word: string) =>
    `Ohne Plätze sehen die Kopien von „${word}“ für jeden Kopf gleich aus: Zeilen, die sie unterscheiden müssten, misslingen.`,
  lowered: (word: string) =>
    `Der Satz beginnt jetzt mit einem kleinen Buchstaben, damit „${word}“ zweimal darin steht.`,
  allDiffer:
    "Alle Wörter dieses Satzes sind verschieden: Ein Kopf, der das Wort kennt, kennt auch den Platz, und ohne Plätze ändert sich nichts.",
  takeRepeated: "Nimm einen Satz mit einem wiederholten Wort",
  /** ein Satz, in dem es auf die Plätze ankommt; englisch wie die Sätze dieser Seite */
  repeated: "the tired horse crossed the narrow road because it was late",
} satisfies typeof en;
