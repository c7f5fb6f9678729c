// Die Beispiele des Mikroskops: wie sie heißen, worauf zu achten ist, und was gesagt wird, wo das Modell es nicht zeigt.
import type en from "../en/examples";

export default {
  all: {
    repetition: { name: "Wiederholung", lookFor: "Such Köpfe, die finden, was beim letzten Mal danach kam." },
    indirectObject: { name: "Indirektes Objekt", lookFor: "Such Köpfe, die den anderen Namen holen." },
    pronoun: { name: "Pronomen", lookFor: "Such Köpfe, die „it“ mit seinem Nomen verbinden." },
    list: { name: "Aufzählung", lookFor: "Such Köpfe, die von Komma zu Komma springen." },
    quotation: { name: "Wörtliche Rede", lookFor: "Such Köpfe, die sich merken, wer gesprochen hat." },
    code: { name: "Code", lookFor: "Such Köpfe, die Namen aus der Zeile darüber abschreiben." },
    farBack: { name: "Weit zurück", lookFor: "Such Köpfe, die über den ganzen Abschnitt hinweg lesen." },
  },
  label: "Beispiel",
  own: "dein eigener Text",
  expectsOther: (token: string, wanted: string) =>
    `Dieses Modell zeigt nicht, worum es in diesem Beispiel geht: Es erwartet „${token}“, nicht „${wanted}“.`,
  readsLittle: "Dieses Modell zeigt nicht, worum es in diesem Beispiel geht: Keiner seiner Köpfe liest so.",
  searching: "Ein Beispiel wird gesucht, das es zeigt.",
  offer: (name: string) => `„${name}“ zeigt es`,
  none: "Auch keines der anderen Beispiele zeigt, worum es darin geht.",
} satisfies typeof en;
