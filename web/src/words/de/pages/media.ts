// Bilder und Ton unter dem Mikroskop.
import type en from "../../en/pages/media";

export default {
  pictures: "ein Bild",
  sounds: "eine .wav-Datei",
  or: (one: string, other: string) => `${one} oder ${other}`,
  choose: (kinds: string) => `Datei wählen: ${kinds}`,
  drop: (kinds: string) => `Oder ${kinds} irgendwo hierher ziehen`,
  needed: (kinds: string) =>
    `Dieses Modell liest ${kinds}. Zieh die Datei hierher, oder wähle sie aus. Nichts verlässt diesen Rechner.`,
  notRead: "Dieses Modell liest nur Text; es nimmt weder Bild noch Ton.",
  tooLarge: (megabytes: string, most: string) =>
    `Die Datei hat ${megabytes} MB, und höchstens ${most} werden gelesen. Verkleinere sie zuerst.`,
  remove: (name: string) => `${name} wegnehmen`,
  beside: "Text dazu",
  written: "Was der Decoder geschrieben hat",
  noText: "Dieses Modell nimmt keinen Text",
  picture: "Bild",
  sound: "Ton",
  pictureLabel: (head: string, token: string, strongest: string) =>
    `Was Kopf ${head} von ${token} aus liest, über dem Bild. ${strongest}. Pfeiltasten gehen zu einem anderen Feld, Plus und Minus vergrößern und verkleinern.`,
  soundLabel: (head: string, token: string, strongest: string) =>
    `Was Kopf ${head} von ${token} aus liest, unter der Wellenform. ${strongest}. Pfeiltasten wählen eine andere Zeile.`,
  strongest: (key: string, weight: string) => `Am meisten: ${key}, ${weight}`,
  reads: (query: string, key: string, weight: string) => `${query} liest ${key} ${weight}`,
  isRead: (query: string, key: string, weight: string) => `${key} wird gelesen von ${query} ${weight}`,
  cut: (query: string, key: string, weight: string) => `${query} von ${key} abschneiden ${weight}`,
  veil: "Je klarer ein Feld, desto mehr wird es gelesen; was nicht gelesen wird, verblasst.",
  clearest: (weight: string) => `Ein klares Feld ist ${weight}.`,
  darkest: (weight: string) => `Die dunkelste Farbe ist ${weight}.`,
  others: "Positionen, die keine Felder sind",
  choosePatch: "Klick ein Feld an und sieh, was es liest.",
  chooseWord: "Klick ein Wort an und sieh, wer es liest, oder ein Feld und sieh, was es liest.",
  readsWords: (patch: string) => `${patch} liest Wörter, keine Felder; ihre Gewichte stehen neben dem Bild.`,
  step: "Schritt",
  previousStep: "Der Schritt davor",
  nextStep: "Der nächste Schritt",
  ofSteps: (count: number) => `von ${count}`,
  chooseTime: "Klick in den Ton und sieh, was dieser Moment liest.",
  sink: (key: string, mean: string, even: string) =>
    `Die meiste Aufmerksamkeit geht an **${key}**: im Mittel ${mean} davon, wo gleiche Anteile ${even} wären.`,
  aside: (key: string) => `${key} beiseite`,
  asideWhy:
    "Eine Senke: Ein Kopf, der nichts zu sagen hat, ruht auf einer Position, denn seine Gewichte müssen eins ergeben. Ohne sie ist zu sehen, was er sonst liest. Die anderen Gewichte werden nicht umgerechnet.",
  notDrawn: (weight: string, key: string) =>
    `${weight} auf ${key} ist nicht gezeichnet; der Rest ist nicht umgerechnet.`,
  elsewhere: (weight: string) => `${weight} dieser Zeile liegt auf Positionen, die nicht im Bild sind.`,
  seconds: (seconds: string) => `${seconds} s`,
  silence: (seconds: string, covered: string) =>
    `Der Ton dauert ${seconds} s; dieses Modell hört immer ${covered} s, und der Rest ist angefügte Stille.`,
  noGrid:
    "Wo die Schlüssel dieses Kopfes im Bild liegen, ist nicht bekannt, oder sie gehen nicht Zeile für Zeile; die Heatmap zeigt sie einzeln.",
  noPicture: "Das Bild selbst ist nicht da; die Heatmap zeigt seine Positionen.",
  title: (model: string, head: string, token: string) => `${model}, Kopf ${head}: was ${token} liest`,
  titleRead: (model: string, head: string, token: string) => `${model}, Kopf ${head}: wer ${token} liest`,
  position: "Position",
  weight: "Gewicht",
  save: "dieses Bild",
} satisfies typeof en;
