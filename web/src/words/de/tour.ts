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
      "Derselbe Kopf, jetzt mit seinen Zahlen und dem englischen Satz. Jedes Wort hat einen Wert, die Zeile von Zahlen, die es abgibt; der Kopf addiert Anteil × Wert, Wort für Wort. Zieh den Anteil von **animal** herunter und beobachte die fette Summe o₁.",
    after:
      "Die Summe o₁ hat sich zu den Werten der Wörter bewegt, die mehr bekommen haben. Ein Kopf bringt eine Summe heim, was auch immer er liest.",
  },
  shares: {
    before:
      "In einem Modell zieht niemand an Anteilen: Es berechnet sie. *it* stellt eine Anfrage, jedes Wort hat einen Schlüssel, und Anfrage mal Schlüssel ist ein Score. Die Anfrage entsteht aus x, den Zahlen von *it*, durch eine Tabelle von Gewichten, W_Q. Ändere eine Zahl von x oder W_Q und sieh, wie die Anteile folgen.",
    after:
      "Eine andere Anfrage, andere Scores, und Softmax hat andere Anteile daraus gemacht. W_Q ist gelernt: So kommt ein Kopf zu seiner Frage.",
  },
  twoHeads: {
    before: "Zwei Köpfe lesen dasselbe Wort mit zwei Fragen. Ändere einen Anteil von Kopf 2 und beobachte o₁.",
    after: "o₂ hat sich geändert und o₁ nicht: Jeder Kopf behält seine eigene Antwort.",
  },
  mixed: {
    before:
      "Die beiden Summen werden aneinandergehängt, und W_O macht daraus das Ergebnis. Stell es von Identität auf Mischen um.",
    after:
      "Jetzt entsteht jede Zahl von y aus beiden Köpfen. W_O wählt nicht zwischen Köpfen; es addiert, was alle sagen.",
  },
  realHeads: {
    tested: (heads: number, named: number, resting: number, head: string) =>
      `${heads} echte Köpfe dieses Modells, jeder mit seinem Muster auf diesem Text. In Tests haben sich ${named} davon einen Namen verdient, ${resting} davon nur für das Ruhen auf dem ersten Token. Such Kopf ${head} im Raster und wähle ihn aus: Ein Kopf heißt Schicht.Kopf, beide von 0 an gezählt.`,
    here: (heads: number, head: string) =>
      `${heads} echte Köpfe dieses Modells, jeder mit seinem Muster auf diesem Text. Keiner wurde auf eine Rolle geprüft; Kopf ${head} liest, was beim letzten Mal danach kam. Such ihn im Raster und wähle ihn aus: Ein Kopf heißt Schicht.Kopf, beide von 0 an gezählt.`,
    pushes: (heads: number, head: string) =>
      `${heads} echte Köpfe dieses Modells, jeder mit seinem Muster auf diesem Text. Keiner sucht, was beim letzten Mal danach kam; Kopf ${head} tut am meisten für das nächste Token. Such ihn im Raster und wähle ihn aus: Ein Kopf heißt Schicht.Kopf, beide von 0 an gezählt.`,
    afterInduction: (last: string, reads: string) =>
      `Ein Induktionskopf: Von *${last}* aus liest er **${reads}**, das weiter vorn im Text nach denselben Wörtern kam.`,
    after: (last: string, reads: string) => `Von *${last}* aus liest dieser Kopf vor allem **${reads}**.`,
  },
  switchOff: {
    before: (token: string, before: string, head: string) =>
      `Das Modell erwartet **${token}** mit ${before} %. Schalte Kopf ${head} ab und sieh, was es dann erwartet.`,
    lost: (token: string, before: string, after: string, head: string) =>
      `Ohne Kopf ${head} fällt **${token}** von ${before} % auf ${after} %. Das meiste davon hing an diesem einen Kopf.`,
    kept: (token: string, before: string, after: string, head: string) =>
      `Ohne Kopf ${head} geht **${token}** von ${before} % auf ${after} %: In diesem Modell tun andere Köpfe dieselbe Arbeit, und kein einzelner wird hier gebraucht.`,
    none: (head: string) =>
      `Dieses Modell sagt kein nächstes Token voraus, also geht hier nichts verloren. Kopf ${head} bleibt ausgewählt; weiter im Mikroskop.`,
  },
} satisfies typeof en;
