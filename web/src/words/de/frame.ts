// Der Rahmen jeder Seite: die Leiste oben, und was dasteht, während eine Seite lädt.
import type en from "../en/frame";

export default {
  pages: {
    start: "Start",
    tour: "Tour",
    learn: "Lernen",
    microscope: "Mikroskop",
    "four-heads": "Vier Köpfe",
    "by-hand": "Von Hand",
    "one-or-many": "Einer oder viele",
    film: "Film",
    cards: "Modellkarten",
    census: "Zensus",
    class: "Klasse",
    worksheet: "Arbeitsblatt",
  },
  nav: "Seiten",
  skip: "Zum Inhalt springen",
  expert: "Ich kenne Aufmerksamkeit: zum Mikroskop",
  expertShort: "Mikroskop",
  copy: "Link zu dieser Ansicht kopieren",
  copied: "Link kopiert",
  theme: "Hell oder dunkel",
  language: "Sprache",
  opening: "Die Seite wird geöffnet",
  lastPicture: "Das Programm auf diesem Rechner läuft nicht mehr. Du siehst das letzte gute Bild.",
  answered: (status: number) => `Das Programm hat mit einem Fehler geantwortet (${status}).`,
  stopped:
    "Das Programm auf diesem Rechner läuft nicht mehr, deshalb ließ sich die Seite nicht öffnen. Starte es neu und lade die Seite noch einmal.",
} satisfies typeof en;
