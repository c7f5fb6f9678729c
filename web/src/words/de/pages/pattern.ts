// Das Muster eines Kopfes im Mikroskop.
import type en from "../../en/pages/pattern";

export default {
  head: "Kopf",
  shares: "teilt",
  keys: "Schlüssel",
  and: "und",
  values: "Werte",
  withHeads: (heads: string) => `mit ${heads}`,
  knockOut: "Knock-out",
  knockOutWhy: "Pfeile ausschalten: Klick auf eine Zelle verbirgt diesen Schlüssel vor dieser Anfrage",
  drawn: "Wie das Muster gezeichnet wird",
  heatMap: "Heatmap",
  arcs: "Bögen",
  saveArcs: "diese Bögen",
  cutting:
    "Klick auf eine Zelle schneidet ihren Pfeil durch, noch ein Klick heilt ihn: Die Anfrage verteilt ihre Aufmerksamkeit dann auf die anderen.",
  seeNext: "Was das mit der Vorhersage macht, steht unter „Nächstes Token“.",
  zoomIn: "Zoom hinein, bis einzelne Token zu sehen sind.",
  tokensOf: (span: number, all: number) => `${span} von ${all} Token.`,
  wholeText: "Ganzer Text",
  wheelOr: "Mausrad oder",
  toZoom: "zum Zoomen, ziehen zum Verschieben.",
  around: "Um das gewählte Token",

  arcsOf: (head: string) => `Muster von Kopf ${head} als Bögen. Pfeiltasten wählen das Wort.`,
  mapOf: (head: string, strongest: string) => `Muster von Kopf ${head}. ${strongest}. Pfeiltasten wählen die Zeile`,
  zoomKeys: ", Plus und Minus zoomen",
  cutKeys: ", links und rechts eine Zelle, Enter schneidet sie durch",
  askKeys: ", links und rechts eine Zelle, Enter fragt warum",
  strongest: (query: string, key: string, weight: string) => `${query} liest ${key} ${weight}`,
  verbs: { weight: "liest", row: "relativ zum Größten:", value: "holt von" },
  cut: "schneiden:",
  atMost: "höchstens ",
  received: "erhalten",
  overview: "ganzer Text",

  sink: "Eine Senke: Hat ein Kopf nichts zu sagen, ruht er auf dem ersten Token, denn seine Aufmerksamkeitsgewichte müssen zusammen eins ergeben. Es beiseitezulassen zeigt, was er sonst liest. Die anderen Gewichte werden nicht umgerechnet.",
  aside: "erstes Token beiseite",
  measure: "Was die Farben messen",
  measures: {
    weight: {
      name: "Aufmerksamkeitsgewicht",
      short: "Gewicht",
      title: "Die Aufmerksamkeitsgewichte selbst; jede Zeile ergibt zusammen eins.",
    },
    row: {
      name: "Teil des größten der Zeile",
      short: "je Zeile",
      title:
        "Jede Zeile geteilt durch ihr größtes Gewicht, damit auch schwache Zeilen lesbar sind. Ist das erste Token beiseite, durch das größte der anderen.",
    },
    value: {
      name: "Gewicht × Wert",
      short: "× Wert",
      title:
        "Das Gewicht mal die Länge des Wertvektors, den es trägt, vor W_O: wie viel ankommen kann. Senken tragen oft wenig.",
    },
  },

  save: "dieses Muster",
  picture: (model: string, head: string) => `${model}, Kopf ${head}`,
  inPicture: {
    row: ", jede Zeile in Teilen ihres größten Gewichts",
    value: ", Gewicht × Länge des Wertvektors",
  },
  pooled: (side: number) => `, je das größte von ${side} × ${side}`,

  reads: "liest",
  isReadBy: "wird gelesen von",
  repeated: (place: number) => `Token ${place}: Dieses Wort steht hier mehr als einmal`,
  inAll: (sum: string, tokens: number) => `${sum} insgesamt, von ${tokens} Token.`,
  notDrawn: (weight: string) => `${weight} auf dem ersten Token ist nicht gezeichnet; der Rest wird nicht umgerechnet.`,
} satisfies typeof en;
