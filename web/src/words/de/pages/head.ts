// Die Karten des Mikroskops über den gewählten Kopf: seine Rolle, seine Scores, links und rechts.
import type en from "../../en/pages/head";

export default {
  head: (name: string) => `Kopf ${name}`,
  rank: "Rang",
  scoreAndRank: (score: string, rank: number | null) => `: ${score}, Rang ${rank}`,

  comparison: {
    title: (name: string) => `Kopf ${name}, links und rechts`,
    unknown: (name: string) => `das rechte Modell hat keinen solchen Kopf; du siehst seinen ${name}`,
    question: "Frage",
    left: "links",
    both: "Beide",
    right: "rechts",
    difference: "Unterschied",
  },

  scores: {
    title: "Seine Scores",
    amongAll: "auf diesem Text, unter allen Köpfen",
    others: (heads: string) => `auf diesem Text; grau: die anderen ${heads} Köpfe`,
    save: "die Antworten",
    rankBy: (question: string) => `${question} Klick, um alle Köpfe danach zu ordnen.`,
    of: (heads: string) => ` von ${heads}`,
    notAsked: "diesen Kopf nicht gefragt",
    nothing: "in diesem Text nichts zu finden",
    picture: (model: string, head: string, heads: number) => `${model}, Kopf ${head} unter ${heads} Köpfen`,
    columns: { question: "Frage", answer: "Antwort", rank: "Rang", heads: "Köpfe" },
  },

  arcs: {
    picture: (model: string, head: string) => `${model}, Kopf ${head}`,
    columns: { query: "Anfrage", reads: "liest", key: "Schlüssel", token: "Token", weight: "Gewicht" },
  },

  role: {
    none: "Kein Name",
    also: (roles: string) => `auch ${roles}`,
    changes: "ändert diesen Text",
    without: "Nats KL ohne ihn",
    earnedNone: (roles: string, others: string, heads: string) =>
      `Auf ${roles} Rollen geprüft und keine verdient, wie ${others} andere Köpfe von ${heads}.`,
    nearest: "In den Tests kam er diesen am nächsten.",
    testedOn: (inputs: string) => `Geprüft auf: ${inputs}.`,
    testing: "Jeder Kopf wird auf jede Rolle geprüft. Danach antwortet das Mikroskop wieder.",
    untested: "Dieser Kopf wurde nicht auf eine Rolle geprüft. Was unten steht, beschreibt ihn nur auf diesem Text.",
    test: "Die Köpfe dieses Modells prüfen (dauert eine Minute)",
  },

  details: {
    same: "Gleiche Rolle:",
    more: (heads: number) => `und ${heads} weitere`,
    alike: "Lesen hier ähnlich:",
    cosine: (cosine: string) => `Kosinus der beiden Muster auf diesem Text, ohne das erste Token: ${cosine}`,
    alikeBy: (head: string, cosine: string) => `Kopf ${head}, Ähnlichkeit ${cosine}`,
    noneAlike: "Kein anderer Kopf liest diesen Text wie er.",
    calls: (source: string) => `${source} nennt ihn`,
    outcomes: {
      agrees: "; diese Gewichte stimmen überein",
      differs: "; diese Gewichte weichen ab",
      "not tested": "; diese Gewichte wurden darauf nicht geprüft",
    },
    how: "Wie geprüft wurde",
    marks: (rival: string) =>
      `Punkt: dieser Kopf; Linie: 95-%-Intervall über die Eingaben; grau: die stärkste andere Antwort desselben Kopfes${rival}; Strich: was der Name verlangt.`,
    tried: (inputs: number, p: number) => `${inputs} Eingaben; p = ${p} für das ganze Modell.`,
    control: (score: string) => `Der beste Kopf desselben Modells mit Zufallsgewichten: ${score}.`,
  },
} satisfies typeof en;
