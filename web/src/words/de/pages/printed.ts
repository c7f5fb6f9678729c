// Was der Code einer Lektion druckt, Zeile für Zeile; {1} und {2} stehen für Namen und Zahlen, die bleiben, wie Python sie schreibt.
const printed: Record<string, string> = {
  "scores of {1} [{2}]": "Scores von {1} [{2}]",
  "shares    [{1}]  takes home [{2}]": "Anteile   [{1}]  nimmt heim [{2}]",
  "one head, {1} jobs in different rows: {2} of the targets found":
    "ein Kopf, {1} Aufgaben in verschiedenen Zeilen: {2} der Ziele gefunden",
  "one head {1} both towns right {2}": "ein Kopf        {1} beide Städte richtig {2}",
  "a second head {1} both towns right {2}": "ein zweiter Kopf     {1} beide Städte richtig {2}",
  "twice as wide {1} both towns right {2}": "doppelt so breit     {1} beide Städte richtig {2}",
  "another layer {1} both towns right {2}": "eine weitere Schicht {1} beide Städte richtig {2}",
  "a bigger FFN {1} both towns right {2}": "ein größeres FFN    {1} beide Städte richtig {2}",
  "x {1}   q by head {2}   y {3}": "x {1}   q je Kopf {2}   y {3}",
  "largest difference between a loop over heads and one batched layer: {1}":
    "größter Unterschied zwischen einer Schleife über die Köpfe und einer gebündelten Schicht: {1}",
  "o1, o2 end to end: {1}": "o1, o2 hintereinander     : {1}",
  "through identity : {1}": "durch die Identität       : {1}",
  "through a mix    : {1}": "durch eine Mischung       : {1}",
  "four parts {1}; their sum and the bias miss the output by {2}":
    "vier Teile {1}; ihre Summe und der Bias verfehlen die Ausgabe um {2}",
  "best induction score: by hand {1}, random {2}, trained {3} (head {4})":
    "bester Induktions-Score: von Hand {1}, zufällig {2}, trainiert {3} (Kopf {4})",
  "previous: {1} of {2} heads above one half": "vorheriges Token: {1} von {2} Köpfen über der Hälfte",
  "first: {1} of {2} heads above one half": "erstes Token: {1} von {2} Köpfen über der Hälfte",
  "induction: {1} of {2} heads above one half": "Induktion: {1} von {2} Köpfen über der Hälfte",
  "heads {1}: both values found {2} %": "Köpfe {1}: beide Werte gefunden {2} %",
  "heads {1} parameters": "Köpfe {1} Parameter",
  "self-attention pattern {1}": "Muster der Selbstaufmerksamkeit  {1}",
  "cross-attention pattern {1}  rows sum to {2}": "Muster der Kreuzaufmerksamkeit   {1}  Zeilen ergeben {2}",
  "W_Q reads {1} numbers; W_K and W_V read {2}": "W_Q liest {1} Zahlen; W_K und W_V lesen {2}",
  "a small translator, trained just now: {1}; {2} of {3} phrases right":
    "ein kleiner Übersetzer, eben trainiert: {1}; {2} von {3} Ausdrücken richtig",
  "KV heads {1}  cache at {2} tokens: {3}": "KV-Köpfe {1}  Cache bei {2} Token: {3}",
  "our own small model, KV heads {1}: loss {2} nats per token, {3} bytes per token":
    "unser kleines Modell, KV-Köpfe {1}: Verlust {2} Nats je Token, {3} Bytes je Token",
  "second layer's head finds what came next: {1}; with the first layer silent: {2}":
    "der Kopf der zweiten Schicht findet, was danach kam: {1}; mit stummer erster Schicht: {2}",
  "GPT-2: {1} heads × {2} layers = {3}; Mixtral: {4} of {5} experts, but {6} of {7} heads":
    "GPT-2: {1} Köpfe × {2} Schichten = {3}; Mixtral: {4} von {5} Experten, aber {6} von {7} Köpfen",
  "as it is         road {1}": "wie es ist       road {1}",
  "temperature {1}  road {2}": "Temperatur {1}   road {2}",
  "entropy: largest difference {1}; share of the previous token: {2}":
    "Entropie: größter Unterschied {1}; Anteil des vorherigen Tokens: {2}",
  "patterns of an 8B model at {1} tokens: {2} GB; three numbers a row instead: {3} MB":
    "Muster eines 8B-Modells bei {1} Token: {2} GB; stattdessen drei Zahlen je Zeile: {3} MB",
  "x + attention(norm(x)), then + FFN(norm(…)) is the block: True":
    "x + Aufmerksamkeit(Norm(x)), dann + FFN(Norm(…)) ist der Block: True",
  "change token {1}: attention at tokens {2} moves by {3}, the FFN there by {4}":
    "ändere Token {1}: Die Aufmerksamkeit bei den Token {2} bewegt sich um {3}, das FFN dort um {4}",
  "run {1}similarity {2}error {3}": "Lauf {1}Ähnlichkeit {2}Fehler {3}",
  "started equal  similarity {1}error {2}": "gleich begonnen Ähnlichkeit {1}Fehler {2}",
  "the whole model guesses {1} with {2} %; read after the last block, the same within {3}":
    "das ganze Modell vermutet {1} mit {2} %; nach dem letzten Block gelesen dasselbe bis auf {3}",
  "the embedding  best guess {1}": "die Einbettung  beste Vermutung {1}",
  "block {1}best guess {2}": "Block {1} beste Vermutung {2}",
  "{1} reads {2} with {3}: score {4}, mean of the row {5}, above it {6}":
    "{1} liest {2} mit {3}: Score {4}, Mittel der Zeile {5}, darüber {6}",
  "{1} gave {2}, read {3}; cut: weight {4}, logit {5}": "{1} gab {2}, las {3}; durchtrennt: Gewicht {4}, Logit {5}",
  "{1} heads {2}  KV heads {3}  d_head {4} KiB per token": "{1} Köpfe {2}  KV-Köpfe {3}  d_head {4} KiB je Token",
};
export default printed;
