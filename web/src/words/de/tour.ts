// Die Tour: sechs Halte, jeder mit einem Satz vor und einem nach dem einen, was dort zu tun ist.
import type en from "../en/tour";

export default {
  label: "Die Tour",
  title: (stop: number, name: string) => `${stop}. ${name} · headscope`,
  back: "Zurück",
  next: "Weiter",
  finish: "Weiter im Mikroskop",
  leave: "Tour verlassen",
  of: (stop: number, stops: number) => `Halt ${stop} von ${stops}`,
  waiting: "Das Modell wird gelesen",
  failed: (why: string) => `Das Modell konnte nicht gefragt werden: ${why}`,
  again: "Noch einmal versuchen",
  oneHead: {
    before:
      "Ein Kopf mit Zahlen, für *it* im englischen Satz; seine Anteile sind vorerst von Hand gesetzt. Jedes Wort hat einen Wert, die Zeile von Zahlen, die es abgibt. Der Kopf addiert Anteil × Wert, Wort für Wort. Zieh den Anteil von **animal** herunter und beobachte die fette Summe o₁.",
    after:
      "Die Summe o₁ hat sich zu den Werten der Wörter bewegt, die mehr bekommen haben. Ein Kopf bringt eine Summe heim, was auch immer er liest.",
  },
  shares: {
    before:
      "In einem Modell setzt niemand die Anteile: Sie werden berechnet. Aus x, den Zahlen von *it*, macht eine gelernte Tabelle W_Q eine Anfrage. Jedes Wort hat einen Schlüssel; Anfrage mal Schlüssel ist sein Score, und Softmax macht aus den Scores Anteile. Ändere eine Zahl von x oder W_Q und beobachte die Anteile.",
    after: "Eine andere Anfrage, andere Scores, andere Anteile. W_Q ist gelernt: So kommt ein Kopf zu seiner Frage.",
  },
  twoHeads: {
    before:
      "Ein zweiter Kopf liest dasselbe Wort mit einer eigenen Frage. Die Anteile sind wieder von Hand gesetzt. Ändere einen von Kopf 2 und beobachte o₁.",
    after: "o₂ hat sich geändert und o₁ nicht: Jeder Kopf bringt seine eigene Antwort heim.",
  },
  mixed: {
    before:
      "Die beiden Antworten werden aneinandergehängt, und W_O, noch eine gelernte Tabelle, macht daraus das Ergebnis y. Stell es von Identität, die nichts ändert, auf Mischen um.",
    after:
      "Jetzt entsteht jede Zahl von y aus beiden Köpfen. W_O wählt nicht zwischen Köpfen: Es addiert, was alle heimbringen.",
  },
  realHeads: {
    tested: (heads: number, named: number, resting: number, head: string) =>
      `${heads} echte Köpfe dieses Modells, jeder mit seinem Muster auf diesem Text. In Tests haben sich ${named} davon einen Namen verdient: ${named - resting} für eine Aufgabe, ${resting} nur für das Ruhen auf dem ersten Token. Such Kopf ${head} im Raster und wähle ihn aus: Ein Kopf heißt Schicht.Kopf, beide von 0 an gezählt.`,
    here: (heads: number, head: string) =>
      `${heads} echte Köpfe dieses Modells, jeder mit seinem Muster auf diesem Text. Keiner wurde auf eine Rolle geprüft; Kopf ${head} liest, was beim letzten Mal danach kam. Such ihn im Raster und wähle ihn aus: Ein Kopf heißt Schicht.Kopf, beide von 0 an gezählt.`,
    pushes: (heads: number, head: string) =>
      `${heads} echte Köpfe dieses Modells, jeder mit seinem Muster auf diesem Text. Keiner sucht, was beim letzten Mal danach kam; Kopf ${head} tut am meisten für das nächste Token. Such ihn im Raster und wähle ihn aus: Ein Kopf heißt Schicht.Kopf, beide von 0 an gezählt.`,
    afterInduction: (last: string, reads: string) =>
      `Ein Induktionskopf: Von *${last}* aus liest er **${reads}**, das weiter vorn im Text nach denselben Wörtern kam.`,
    after: (last: string, reads: string) => `Von *${last}* aus liest dieser Kopf vor allem **${reads}**.`,
  },
  switchOff: {
    before: (text: string, token: string, before: string, head: string) =>
      `„${text} …“: Als Nächstes erwartet das Modell **${token}** mit ${before} %. Schalte Kopf ${head} ab und sieh, was es dann erwartet.`,
    lost: (token: string, before: string, after: string, head: string) =>
      `Ohne Kopf ${head} fällt **${token}** von ${before} % auf ${after} %. Das meiste davon hing an diesem einen Kopf.`,
    kept: (token: string, before: string, after: string, head: string) =>
      `Ohne Kopf ${head} geht **${token}** von ${before} % auf ${after} %: In diesem Modell tun andere Köpfe dieselbe Arbeit, und kein einzelner wird hier gebraucht.`,
    none: (head: string) =>
      `Dieses Modell sagt kein nächstes Token voraus, also geht hier nichts verloren. Kopf ${head} bleibt ausgewählt; weiter im Mikroskop.`,
  },
} satisfies typeof en;
