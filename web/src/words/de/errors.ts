// Fehler des Programms, die jemand auf der Seite zu lesen bekommt; {1} und {2} stehen für Namen und Zahlen, wie in served.ts.
// Ein Test vergleicht die englischen Sätze mit dem Quelltext.
const errors: Record<string, string> = {
  // Server
  "too many requests wait for this model; try again in a moment":
    "zu viele Anfragen warten auf dieses Modell; versuch es gleich noch einmal",
  "the server failed on this request; the terminal it runs in shows the error":
    "der Server ist an dieser Anfrage gescheitert; sein Terminal zeigt den Fehler",
  "too many requests at once from this address; wait a second":
    "zu viele Anfragen auf einmal von dieser Adresse; warte eine Sekunde",
  "too many long texts are being sent to this server at once; try again in a moment":
    "zu viele lange Texte werden diesem Server auf einmal geschickt; versuch es gleich noch einmal",
  "a request holds at most {1} MiB; send a shorter text":
    "eine Anfrage fasst höchstens {1} MiB; schick einen kürzeren Text",
  "the request did not arrive within {1} seconds; send it again":
    "die Anfrage kam nicht in {1} Sekunden an; schick sie noch einmal",
  "the program failed while it was working; try again":
    "das Programm ist bei der Arbeit gescheitert; versuch es noch einmal",
  "this page needs its token: open the whole address that the terminal printed, with ?token=… at its end":
    "diese Seite braucht ihren Schlüssel: Öffne die ganze Adresse, die das Terminal zeigt, mit ?token=… am Ende",
  "{1} requests of yours are under way; wait for their answers":
    "{1} Anfragen von dir laufen schon; warte auf ihre Antworten",
  "a library that reads the text failed on it ({1}); try another text or model":
    "eine Bibliothek, die den Text liest, ist an ihm gescheitert ({1}); versuch einen anderen Text oder ein anderes Modell",
  "there is not enough memory for this; try a shorter text, or a smaller model":
    "dafür reicht der Speicher nicht; versuch einen kürzeren Text oder ein kleineres Modell",

  // Klasse
  "no class is held here; start one with headscope serve --classroom":
    "hier findet keine Klasse statt; beginn eine mit headscope serve --classroom",
  "this is the teacher's: open the address that the terminal printed for the teacher":
    "das ist der Lehrkraft vorbehalten: Öffne die Adresse, die das Terminal für sie zeigt",
  "your teacher has not opened lesson {1} yet": "deine Lehrkraft hat Lektion {1} noch nicht geöffnet",
  "there is no lesson {1}; there are {2} to {3}": "es gibt keine Lektion {1}; es gibt {2} bis {3}",
  "lesson {1} is the only open one; open another first": "Lektion {1} ist die einzige offene; öffne erst eine andere",
  "nobody is asked to show a page now, or another page is shown already":
    "gerade wird niemand um seine Seite gebeten, oder es wird schon eine andere gezeigt",
  "seed={1} is not between 0 and {2}": "der Startwert {1} liegt nicht zwischen 0 und {2}",

  // Modelle und Texte
  "there is no model {1} on this page; it has {2}": "auf dieser Seite gibt es kein Modell {1}; sie hat {2}",
  "this page may show {1} and open no other; for {2} start it with `headscope serve --allow-models`":
    "diese Seite darf {1} zeigen und kein anderes öffnen; für {2} starte sie mit `headscope serve --allow-models`",
  "{1} is no model; give a model's name on the hub, or its folder":
    "{1} ist kein Modell; gib den Namen eines Modells auf dem Hub an oder seinen Ordner",
  "this page already shows another model that is called {1}; rename the folder":
    "diese Seite zeigt schon ein anderes Modell namens {1}; benenne den Ordner um",
  "this text is empty; type a sentence": "dieser Text ist leer; schreib einen Satz",
  "the text is empty; there is nothing to look at": "der Text ist leer; es gibt nichts anzusehen",
  "the text of look {1} is no longer kept; type it or drop its file again":
    "der Text zu {1} ist nicht mehr da; schreib ihn noch einmal oder zieh seine Datei noch einmal herein",
  "the text has {1} tokens, and this model reads at most {2}; shorten it":
    "der Text hat {1} Token, und dieses Modell liest höchstens {2}; kürze ihn",
  "the text has {1} characters; at most {2} are read at once":
    "der Text hat {1} Zeichen; höchstens {2} werden auf einmal gelesen",
  "the text has {1} characters; the first {2} alone are {3} tokens, and this model reads at most {4}; shorten it":
    "der Text hat {1} Zeichen; schon die ersten {2} sind {3} Token, und dieses Modell liest höchstens {4}; kürze ihn",
  "position {1}: the queries of {2} are positions 0–{3}": "Platz {1}: Die Anfragen von {2} sind die Plätze 0–{3}",
  "positions {1} to {2}: this text has {3} tokens": "Plätze {1} bis {2}: Dieser Text hat {3} Token",
  "token {1} is not in the vocabulary: this model has tokens 0–{2}":
    "Token {1} ist nicht im Wortschatz: Dieses Modell hat die Token 0–{2}",
  "no token was typed; type a word, with a space before it where the text has one":
    "es wurde kein Token eingegeben; gib ein Wort ein, mit einem Leerzeichen davor, wo der Text eines hat",
  "{1} predicts no tokens, so no logit can be split over its heads":
    "{1} sagt keine Token voraus, also lässt sich kein Logit auf seine Köpfe aufteilen",
  "this model has no token for {1}: it reads {2}, its unknown token":
    "dieses Modell hat kein Token für {1}: Es liest {2}, sein unbekanntes Token",
  "{1} has no tokens for this model; type a word or a sign":
    "{1} hat für dieses Modell keine Token; gib ein Wort oder ein Zeichen ein",
  "the arrow of {1} from token {2} to token {3} is not in this text: it has {4} query tokens and {5} key tokens":
    "den Pfeil von {1} von Token {2} zu Token {3} gibt es in diesem Text nicht: Er hat {4} Token als Anfragen und {5} als Schlüssel",
  "{1} predicts no tokens: it has no unembedding to trace a prediction from":
    "{1} sagt keine Token voraus: Es hat keine Ausgabe-Einbettung, von der aus man zurückverfolgen könnte",
  "what is written into the residual stream of {1} tokens takes {2} GiB, and a page keeps {3} GiB of it; explain a text of at most {4} tokens":
    "was in den Residualstrom von {1} Token geschrieben wird, braucht {2} GiB, und eine Seite hebt {3} GiB davon auf; erkläre einen Text von höchstens {4} Token",
  "no head can be compiled from {1}; {2}": "aus {1} lässt sich kein Kopf übersetzen; {2}",
  "the file did not arrive whole ({1}); send it again": "die Datei kam nicht ganz an ({1}); schick sie noch einmal",
  "the file is empty; choose a picture or a .wav file": "die Datei ist leer; wähl ein Bild oder eine .wav-Datei",
  "the file has {1} MB, and at most {2} are read; shrink it first":
    "die Datei hat {1} MB, und höchstens {2} werden gelesen; verkleinere sie erst",
  "{1} is neither a picture that Pillow reads nor a .wav file":
    "{1} ist weder ein Bild, das Pillow liest, noch eine .wav-Datei",

  // Zensus und Film
  "this text has {1} characters, and the page scans up to {2}; put it in a file and scan that: headscope scan --corpus text.txt --out census":
    "dieser Text hat {1} Zeichen, und die Seite durchmustert bis zu {2}; leg ihn in eine Datei und durchmustere sie: headscope scan --corpus text.txt --out census",
  "there is no census {1} on this page; it has {2}. The scan of a pasted text is gone when the program is started again, and of each reader's the last {3} are kept":
    "auf dieser Seite gibt es keinen Zensus {1}; sie hat {2}. Der Zensus eines eingefügten Textes endet mit dem Programm, und von jedem bleiben die letzten {3}",
  "this census has no head {1}; its heads are {2} to {3}":
    "dieser Zensus hat keinen Kopf {1}; seine Köpfe sind {2} bis {3}",
  "this census does not ask {1}; it asks {2}": "dieser Zensus fragt nicht nach {1}; er fragt nach {2}",
  "the film of {1} has no moments yet: its training has not begun":
    "der Film von {1} hat noch keine Augenblicke: Das Training hat nicht begonnen",
  "there is no film {1} on this page; it has {2}": "auf dieser Seite gibt es keinen Film {1}; sie hat {2}",

  // Modellkarten
  "there is no card called {1}; pick one of the {2}, or paste a config":
    "es gibt keine Karte namens {1}; wähl eine der {2} oder füg eine Konfiguration ein",
  "this is not a config.json: it does not begin with a brace; one looks like {1}":
    "das ist keine config.json: Sie beginnt nicht mit einer Klammer; eine sieht so aus: {1}",
  "{1} is not JSON; a config.json looks like {2}": "{1} ist kein JSON; eine config.json sieht so aus: {2}",
  "a width of {1} does not divide into {2} heads; use a divisor, or give d_head too":
    "eine Breite von {1} lässt sich nicht in {2} Köpfe teilen; nimm einen Teiler oder gib auch d_head an",
  "{1} heads cannot share {2} KV heads evenly; use a divisor of {3}":
    "{1} Köpfe können sich {2} KV-Köpfe nicht gleichmäßig teilen; nimm einen Teiler von {3}",
  "{1}={2} must be at least 1": "{1}={2} muss mindestens 1 sein",

  // Antworten und Übungen
  "could not read {1} as an answer; give one letter of {2}, such as b":
    "{1} lässt sich nicht als Antwort lesen; gib einen Buchstaben von {2}, etwa b",
  "could not read {1} as a number; write it like this: 144, or .3, or 30 %, or 3/10":
    "{1} lässt sich nicht als Zahl lesen; schreib so: 144, oder 0,3, oder 30 %, oder 3/10",
  "could not read {1} as words with shares; write it like this: {2}":
    "{1} lässt sich nicht als Wörter mit Anteilen lesen; schreib so: {2}",
  "{1} occurs more than once in {2}; give every word one share":
    "{1} kommt in {2} mehr als einmal vor; gib jedem Wort einen Anteil",
  "could not read {1} as numbers; write them like this: .62 .19 .085 .21":
    "{1} lässt sich nicht als Zahlen lesen; schreib so: .62 .19 .085 .21",
  "no arrows in {1}; write them like this: {2}": "in {1} sind keine Pfeile; schreib so: {2}",
  "the exercise asks for two heads, got {1}; write each as {2}":
    "die Übung verlangt zwei Köpfe, hier sind {1}; schreib jeden so: {2}",
  "give one value for each of {1}; got {2}": "gib je einen Wert für {1}; hier sind {2}",
  "the values of all words need the same number of numbers, at least one":
    "die Werte aller Wörter brauchen gleich viele Zahlen, mindestens eine",
  "{1} is not one of the words to read: {2}": "{1} ist keines der Wörter, die gelesen werden: {2}",
  "{1} has {2}; shares are numbers from 0 to 1, as in {3}": "{1} hat {2}; Anteile sind Zahlen von 0 bis 1, wie in {3}",

  // Von Hand und Vier Köpfe
  "{1} gives {2} {3}; shares must be at least 0": "{1} gibt {2} {3}; Anteile sind mindestens 0",
  "the shares of {1} add up to {2}; they must add up to 1, as .70 + .05 + .10 + .05 + .10 do":
    "die Anteile von {1} ergeben zusammen {2}; sie müssen 1 ergeben, wie 0,70 + 0,05 + 0,10 + 0,05 + 0,10",
  "{1} must be {2} finite numbers, got {3}": "{1} müssen {2} endliche Zahlen sein, nicht {3}",
  "this sentence has no default targets; give one per head, as arrows such as crossed > horse, was > it":
    "zu diesem Satz gibt es keine fertigen Ziele; gib je Kopf eines, als Pfeile wie crossed > horse, was > it",
  "d_model={1}, d_head={2}, steps={3}: use d_model 2–512, d_head 1–256 and 1–{4} steps, as in d_model=32, d_head=8, steps=120":
    "d_model={1}, d_head={2}, {3} Schritte: nimm d_model 2–512, d_head 1–256 und 1–{4} Schritte, etwa d_model=32, d_head=8, 120 Schritte",
  "{1} targets: give 1 to 16, one per head": "{1} Ziele: gib 1 bis 16, eines je Kopf",
  "{1} occurs {2} times; choose from {3}": "{1} kommt {2}-mal vor; wähl aus {3}",
  "{1}: the row of {2} holds {3}; shares are numbers from 0 to 1, as in 0 .5 .5 0":
    "{1}: Die Zeile von {2} enthält {3}; Anteile sind Zahlen von 0 bis 1, wie in 0 .5 .5 0",
  "{1}: the row of {2} adds up to {3}; a softmax row sums to exactly 1, as in 0 .5 .5 0: {4}":
    "{1}: Die Zeile von {2} ergibt zusammen {3}; eine Softmax-Zeile ergibt genau 1, wie in 0 .5 .5 0: {4}",
  "the sentence has {1}; attention needs at least two, as in {2}":
    "der Satz hat {1}; Aufmerksamkeit braucht mindestens zwei Wörter, wie in {2}",
  "the sentence has {1} words; at most {2} can be fitted here. For longer texts use a trained model":
    "der Satz hat {1} Wörter; höchstens {2} lassen sich hier anpassen. Für längere Texte nimm ein trainiertes Modell",
  "the numbers of {1} ({2}) add up to {3} and leave nothing for {4}; make them smaller, or give it a number too":
    "die Zahlen von {1} ({2}) ergeben zusammen {3} und lassen nichts für {4}; mach sie kleiner oder gib auch ihm eine Zahl",
  "could not read {1} as an arrow; write it like this: crossed > horse":
    "{1} lässt sich nicht als Pfeil lesen; schreib so: crossed > horse",
  "there is no word {1} in this sentence: {2}": "das Wort {1} gibt es in diesem Satz nicht: {2}",
  "{1}: {2} ({3}) cannot attend ahead to {4} ({5}) in a causal model: point the arrow back, or use causal=False":
    "{1}: {2} ({3}) kann in einem kausalen Modell nicht vorausschauen auf {4} ({5}): Richte den Pfeil zurück oder nimm causal=False",
  "{1}: the arrow from {2} ({3}) to {4} ({5}) has several shares; give it one":
    "{1}: Der Pfeil von {2} ({3}) zu {4} ({5}) hat mehrere Anteile; gib ihm einen",
  "{1} is given twice; give each arrow once, with one share":
    "{1} steht zweimal da; gib jeden Pfeil einmal, mit einem Anteil",
  "{1} heads do not divide a width of {2}; choose from {3}": "{1} Köpfe teilen eine Breite von {2} nicht; wähl aus {3}",
};
export default errors;
