// Start: ein Satz, ein Wort, ein Kopf, eine Frage. Im deutschen Satz passt „es“ auf beide Nomen, wie „it“ im englischen.
import type en from "../en/start";

export default {
  title: "Was bedeutet *es* hier?",
  name: "Start",
  sentence: "Das Tier lief nicht über das Feld, weil es müde war",
  asked: ["Tier", "Feld", "weil", "müde"],
  reader: "es",
  voice: {
    untouched:
      "Dieser Kopf schaut vor allem auf **Feld**. Ist das mit *es* gemeint? Zieh den Balken unter dem Wort herunter, das du wählen würdest.",
    untouchedPhone:
      "Dieser Kopf schaut vor allem auf **Feld**. Ist das mit *es* gemeint? Zieh am Balken des Wortes, das du wählen würdest.",
    onTheWay: (word: string) =>
      `Weiter. Je mehr **${word}** bekommt, desto mehr geben die anderen ab: Die Anteile ergeben zusammen immer 1.`,
    road: "Dann wäre das Feld müde. Versuch ein anderes Wort.",
    because: "**weil** verbindet die beiden Hälften, benennt aber niemanden. Versuch ein anderes Wort.",
    tiredFirst: "Das sagt, wie *es* ist. Aber wer ist es?",
    who: "Ja, das Tier. Jetzt eine zweite Frage: Wie ist es? Behalte **Tier** und zieh auch **müde** herunter.",
    whoPhone: "Ja, das Tier. Jetzt eine zweite Frage: Wie ist es? Behalte **Tier** und zieh auch **müde** weiter.",
    blend:
      "Von beiden etwas, und *es* steht wieder in der Nähe von **Feld**, wo es angefangen hat. Beide Wörter sind eingegangen; keines lässt sich mehr ablesen.",
    how: "Jetzt weiß *es*, wie, und hat vergessen, wer. Ein Kopf landet an einem Ort, und es gibt zwei Fragen.",
    whoAgain: "Das Wer ist zurück, das Wie ist weg. Ein Kopf landet an einem Ort, und es gibt zwei Fragen.",
    between:
      "Sieh, wohin *es* wandert. Ein Kopf bringt einen einzigen Mittelwert heim, wie auch immer die Anteile liegen.",
    second: "Kopf 1 bleibt bei **Tier**. Lass Kopf 2 herausfinden, wie *es* ist: Zieh *es*₂ unter **müde** herunter.",
    secondPhone: "Kopf 1 bleibt bei **Tier**. Lass Kopf 2 herausfinden, wie *es* ist: Zieh *es*₂ neben **müde**.",
    each: "Gib jedem Kopf eine Frage: Einer sucht, wer *es* ist, der andere, wie *es* ist.",
    both: "Zwei Köpfe, zwei Orte: Jede Frage hat ihre eigene Antwort. Mehrere Köpfe nebeneinander heißen **Multi-Head**-Aufmerksamkeit.",
  },
  figure: "Die Anteile von es, und wo es landet",
  share: (word: string, head: number, heads: number) =>
    heads > 1 ? `Anteil von ${word}, Kopf ${head}` : `Anteil von ${word}`,
  pull: "ziehen",
  sharesOut: "gibt 1",
  sharesOutTwo: "je 1",
  plane: "Wo *es* landet: Jedes Wort zieht so stark, wie sein Anteil groß ist",
  planePhone: "Wo *es* landet",
  who: "Wer ist *es*?",
  how: "Wie ist *es*?",
  whoAnswer: "das Tier",
  howAnswer: "müde",
  notKnown: "unbekannt",
  again: "Von vorn",
  second: "Gib ihm einen zweiten Kopf",
  begin: "Die Tour beginnen",
  goOn: (stop: number) => `Weiter mit Halt ${stop}`,
  tour: {
    title: "Die Tour",
    says: "sechs Halte, etwa zehn Minuten, jederzeit abzubrechen",
    lesson: "Oder lies es als Lektion",
    here: "du bist hier",
    stops: [
      { name: "Ein Kopf", says: "Er verteilt 1 auf die Wörter und bringt ihren Mittelwert heim." },
      {
        name: "Woher die Anteile kommen",
        says: "*es* fragt; je besser ein Wort passt, desto größer sein Anteil.",
      },
      { name: "Zwei Köpfe", says: "Zwei Fragen zugleich, und jeder Kopf bringt seine eigene Antwort heim." },
      {
        name: "Nebeneinander, dann gemischt",
        says: "Die Antworten kommen hintereinander, und eine gelernte Tabelle, W_O, macht ein Ergebnis daraus.",
      },
      {
        name: "Echte Köpfe",
        says: "Die Köpfe eines echten Modells: Manche haben eine Aufgabe, die man benennen kann.",
      },
      {
        name: "Einen abschalten",
        says: "Nimm einen einzigen Kopf weg und sieh, welche nächsten Wörter dem Modell verloren gehen.",
      },
    ],
    realHeads: (heads: number) =>
      `${heads} Köpfe eines echten Modells: Manche haben vielleicht eine Aufgabe, die man benennen kann.`,
    testedHeads: (heads: number, named: number, resting: number) =>
      `${heads} Köpfe eines echten Modells. In Tests haben sich ${named} davon einen Namen verdient: ${named - resting} für eine Aufgabe, ${resting} nur für das Ruhen.`,
    asks: "es fragt",
    question: "dasselbe Wort, zwei Fragen",
    asIs: "wie er ist",
    without: (head: string) => `ohne ${head}`,
  },
  leftOut:
    "In diesem Bild hat jedes Wort einen Ort, und ein Ort besteht aus zwei Zahlen; in einem echten Kopf sind es oft 64. Mehr Zahlen geben mehr Platz, aber ein Kopf bringt trotzdem nur einen Mittelwert heim.",
  later:
    "Hier darf *es* auch Wörter ansehen, die später kommen. Ein Modell, das schreibt, kann das nicht: Sein Muster ist ein Dreieck und heißt kausal.",
} satisfies typeof en;
