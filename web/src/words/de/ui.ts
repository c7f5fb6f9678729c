// Bedienelemente, die mehrere Seiten teilen.
import type en from "../en/ui";

export default {
  save: (what: string) => `Speichern: ${what}`,
  saveIt: "Speichern",
  kinds: { png: "PNG-Bild", svg: "SVG-Bild", csv: "CSV-Zahlen", html: "HTML-Seite" },
  numbers: "Die Zahlen",
  notInFile: "Diese Datei enthält einen Text und kein Modell. Öffne den Text dafür in headscope.",
  again: "Noch einmal versuchen",
  key: (name: string, top: string) => `Legende: dunkler ist mehr ${name}, von 0 bis ${top}`,
  weight: "Gewicht",
  attempt: "Probier:",
  more: (shown: string, more: number) => `${shown} und ${more} weitere`,
  thousands: "\u202f",
  /** Vor Dezimalstellen: 0,5. */
  decimal: ",",
  layer: (site: string) => `Schicht ${site}`,
} satisfies typeof en;
