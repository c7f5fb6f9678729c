// Sätze des Programms auf Deutsch; {1} und {2} stehen für Namen und Zahlen. Was hier fehlt, bleibt englisch.
const served: Record<string, string> = {
  // Von Hand
  "Who is meant?": "Wer ist gemeint?",
  "What is said of it?": "Was wird darüber gesagt?",
  living: "Lebewesen",
  place: "Ort",
  link: "Bindewort",
  verb: "Verb",
  state: "Zustand",
  pronoun: "Pronomen",
  subject: "Subjekt",
  late: "spät",
  input: "Eingabe",
  "head 1": "Kopf 1",
  "head 2": "Kopf 2",
  concatenate: "aneinanderh.",
  output: "Ausgabe",
  "head {1}: shares": "Kopf {1}: Anteile",
  "head {1}: sum": "Kopf {1}: Summe",
  "two different questions": "zwei verschiedene Fragen",
  concatenation: "Aneinanderhängen",
  "They add up to 1.": "Zusammen ergeben sie 1.",
  "They add up to {1}, too much: a head shares out exactly 1.":
    "Zusammen ergeben sie {1}, zu viel: Ein Kopf verteilt genau 1.",
  "They add up to {1}, too little: a head shares out exactly 1.":
    "Zusammen ergeben sie {1}, zu wenig: Ein Kopf verteilt genau 1.",
  "{1} has {2}; softmax never gives less than 0.": "{1} hat {2}; Softmax gibt nie weniger als 0.",
  "One head reads {1} most, the other {2}.": "Ein Kopf liest vor allem {1}, der andere {2}.",
  "Both heads read {1} most: the second tells you nothing new. Let one look for whom “{2}” means, and the other for what is said of it.":
    "Beide Köpfe lesen vor allem {1}: Der zweite sagt dir nichts Neues. Lass den einen suchen, wer mit „{2}“ gemeint ist, und den anderen, was darüber gesagt wird.",
  "They read {1} and {2} most; one should find whom “{3}” means ({4}), the other what is said of it ({5}).":
    "Sie lesen vor allem {1} und {2}; einer soll finden, wer mit „{3}“ gemeint ist ({4}), der andere, was darüber gesagt wird ({5}).",
  "End to end: {1}.": "Hintereinander: {1}.",
  "The two are there, but in the other order: head 1 comes first.":
    "Beide sind da, aber in der anderen Reihenfolge: Kopf 1 kommt zuerst.",
  "It has {1} numbers, not {2}. You have added or averaged them; concatenation adds nothing: it lays them end to end.":
    "Es hat {1} Zahlen, nicht {2}. Du hast addiert oder gemittelt; Aneinanderhängen addiert nichts: Es legt hintereinander.",
  "It has {1} numbers, {2} of each head; you gave {3}.": "Es hat {1} Zahlen, {2} von jedem Kopf; du hast {3} gegeben.",
  "The first half is not what head 1 brings home. Check that sum.":
    "Die erste Hälfte ist nicht, was Kopf 1 heimbringt. Prüf diese Summe.",
  "The second half is not what head 2 brings home. Check that sum.":
    "Die zweite Hälfte ist nicht, was Kopf 2 heimbringt. Prüf diese Summe.",
  "A value has {1} numbers, so the sum has too; you gave {2}.":
    "Ein Wert hat {1} Zahlen, also auch die Summe; du hast {2} gegeben.",
  "Number {1} is not {2}. Take number {3} of every value times the word's share, and add: {4} alone gives {5}.":
    "Zahl {1} ist nicht {2}. Nimm Zahl {3} jedes Wertes mal den Anteil des Wortes und addiere: {4} allein gibt {5}.",
  "Number {1} is {2} = {3}, not {4}.": "Zahl {1} ist {2} = {3}, nicht {4}.",
  "Head 1 reads the input.": "Kopf 1 liest die Eingabe.",
  "Head 2 reads the same input, at the same time.": "Kopf 2 liest dieselbe Eingabe, zur selben Zeit.",
  "Its answer comes first.": "Seine Antwort kommt zuerst.",
  "Its answer comes after.": "Seine Antwort kommt danach.",
  "All answers together, then mixed.": "Alle Antworten zusammen, dann gemischt.",
  "What W_O writes leaves the layer.": "Was W_O schreibt, verlässt die Schicht.",
  "Heads do not feed each other: both read the input, side by side. A chain would be two layers.":
    "Köpfe speisen einander nicht: Beide lesen die Eingabe, nebeneinander. Eine Kette wären zwei Schichten.",
  "The answers lie end to end but are not mixed yet: W_O comes between.":
    "Die Antworten liegen hintereinander, sind aber noch nicht gemischt: W_O kommt dazwischen.",
  "Only the heads' answers are concatenated. (The input meets the output later, in the residual sum.)":
    "Nur die Antworten der Köpfe werden aneinandergehängt. (Die Eingabe trifft später auf die Ausgabe, in der Residualsumme.)",
  "W_O reads what the heads say, not the input itself.": "W_O liest, was die Köpfe sagen, nicht die Eingabe selbst.",
  "That is the residual connection: true of the block, but outside the attention layer.":
    "Das ist die Residualverbindung: Im Block stimmt sie, aber sie liegt außerhalb der Aufmerksamkeitsschicht.",
  "The other way round: concatenate first, then mix.": "Andersherum: erst aneinanderhängen, dann mischen.",
  "W_O is one matrix for all heads together: first lay their answers end to end.":
    "W_O ist eine Matrix für alle Köpfe zusammen: Leg ihre Antworten zuerst hintereinander.",
  "Nothing leaves the layer without W_O.": "Nichts verlässt die Schicht ohne W_O.",
  "The other way round: {1} → {2}.": "Andersherum: {1} → {2}.",
  "No number flows along this arrow.": "An diesem Pfeil fließt keine Zahl entlang.",
  "This arrow is missing.": "Dieser Pfeil fehlt.",
  "previous token": "vorheriges Token",
  itself: "es selbst",
  "first token": "erstes Token",
  separators: "Satzzeichen",
  "duplicate token": "wiederholtes Token",
  induction: "Induktion",
  "Every token reads the one before it.": "Jedes Token liest das vor ihm.",
  "Every token reads itself.": "Jedes Token liest sich selbst.",
  "Every token reads the first one: what a sink does.": "Jedes Token liest das erste: was eine Senke tut.",
  "Every token reads the separators before it.": "Jedes Token liest die Satzzeichen vor ihm.",
  "Every token reads earlier copies of itself, never itself; with none before it, it attends evenly.":
    "Jedes Token liest frühere Kopien von sich, nie sich selbst; wo es keine gibt, verteilt es gleichmäßig.",
  'Two layers: the first notes at each token which one stood before it; the second asks "who stood after me?".':
    "Zwei Schichten: Die erste merkt sich bei jedem Token, welches davor stand; die zweite fragt: „Wer stand nach mir?“",

  // Vier Köpfe
  "Verb to subject": "Verb zu Subjekt",
  "Who did it?": "Wer hat es getan?",
  "Noun to modifier": "Nomen zu Adjektiv",
  "What kind of thing?": "Was für ein Ding?",
  "Pronoun to antecedent": "Pronomen zu Bezugswort",
  "Previous token": "Vorheriges Token",
  "What came just before?": "Was kam gerade davor?",
  "{1} steps are too few: after {2} this row reaches {3}.":
    "{1} Schritte sind zu wenige: Nach {2} erreicht diese Zeile {3}.",
  "d_head={1} is too small: a head of {2} numbers reaches {3} on this row. One score is a product of so few numbers that the rows get in each other's way.":
    "d_head={1} ist zu klein: Ein Kopf mit {2} Zahlen erreicht in dieser Zeile {3}. Ein Score ist ein Produkt aus so wenigen Zahlen, dass die Zeilen einander in die Quere kommen.",
  "d_model={1} is too small to tell {2} words apart here: even a head of {3} numbers reaches only {4}.":
    "d_model={1} ist zu klein, um hier {2} Wörter zu unterscheiden: Selbst ein Kopf mit {3} Zahlen erreicht nur {4}.",
  "{1} at {2} and at {3} look alike without positions: no head can choose between them.":
    "{1} an Platz {2} und an {3} sehen ohne Plätze gleich aus: Kein Kopf kann zwischen ihnen wählen.",
  "{1} at {2} and at {3} have the same query without positions, but should attend to different words.":
    "{1} an Platz {2} und an {3} haben ohne Plätze dieselbe Anfrage, sollen aber verschiedene Wörter lesen.",

  // Einer oder viele
  "two keys, two values": "zwei Schlüssel, zwei Werte",
  "a subject and its modifier": "ein Subjekt und sein Adjektiv",
  "2 heads": "2 Köpfe",
  "one wide head": "ein breiter Kopf",
  "one head, more layers": "ein Kopf, mehr Schichten",
  "one head, bigger FFN": "ein Kopf, größeres FFN",
  "more layers": "mehr Schichten",
  "bigger FFN": "ein größeres FFN",
  "1 head": "1 Kopf",
  "{1} heads": "{1} Köpfe",
  "{1} heads find both values {2} % of the time; one wide head with as many parameters {3} % (guessing gives {4}). It gets {5} % of the parts right: it can look at both keys at once, but their values arrive as one average, and which was asked first is lost.":
    "{1} Köpfe finden beide Werte in {2} % der Fälle; ein breiter Kopf mit ebenso vielen Parametern in {3} % (Raten ergibt {4}). Von den Teilen hat er {5} % richtig: Er kann beide Schlüssel zugleich ansehen, aber ihre Werte kommen als ein Mittelwert an, und wonach zuerst gefragt war, ist verloren.",
  "Having two heads is no promise that they will share the work: {1} of {2} seeds solve the task; in the rest they had not learned to when training ended.":
    "Zwei Köpfe zu haben verspricht nicht, dass sie sich die Arbeit teilen: {1} von {2} Startwerten lösen die Aufgabe; in den übrigen hatten sie es am Ende des Trainings nicht gelernt.",
  "Depth can stand in for heads here: one head, more layers, reaches {1} %. The first layer fetches one value, the second the other: in turn, not at once.":
    "Tiefe kann hier Köpfe ersetzen: Ein Kopf mit mehr Schichten erreicht {1} %. Die erste Schicht holt den einen Wert, die zweite den anderen: nacheinander, nicht zugleich.",
  "So can a bigger FFN here: one head, bigger FFN, reaches {1} %. The average still holds both tokens, and an FFN can compare them with the question.":
    "Ein größeres FFN kann es hier auch: Ein Kopf mit größerem FFN erreicht {1} %. Der Mittelwert enthält noch beide Token, und ein FFN kann sie mit der Frage vergleichen.",
  "One head, more layers, reaches {1} %: it did not catch up in this many steps.":
    "Ein Kopf mit mehr Schichten erreicht {1} %: In so vielen Schritten hat er nicht aufgeholt.",
  "One head, bigger FFN, reaches {1} %: it did not catch up in this many steps.":
    "Ein Kopf mit größerem FFN erreicht {1} %: In so vielen Schritten hat er nicht aufgeholt.",
  "Where each value's own token says what it is for, every arm solves the task, one wide head too: it averages two tokens that can be told apart again. Two things to find do not by themselves need two heads; two questions whose answers look alike do.":
    "Wo das Token jedes Wertes selbst sagt, wofür er ist, lösen alle die Aufgabe, auch ein breiter Kopf: Er mittelt zwei Token, die sich wieder unterscheiden lassen. Zwei Dinge zu finden braucht für sich genommen keine zwei Köpfe; zwei Fragen, deren Antworten gleich aussehen, schon.",
  "The first task again, in a narrower model (width {1}) and among {2} keys. All have the same number of parameters. Best are {3} heads (within 2 points of {4} %); one head reaches {5} %.":
    "Noch einmal die erste Aufgabe, in einem schmaleren Modell (Breite {1}) und unter {2} Schlüsseln. Alle haben gleich viele Parameter. Am besten sind {3} Köpfe (höchstens 2 Punkte unter {4} %); ein Kopf erreicht {5} %.",
  "The intervals of {1} overlap with the best: runs either solve the task or stay stuck, and {2} of them do not rank the counts; how many solved it says more than the mean.":
    "Die Intervalle von {1} überlappen mit dem besten: Läufe lösen die Aufgabe oder bleiben stecken, und {2} davon ordnen die Anzahlen nicht; wie viele sie gelöst haben, sagt mehr als der Mittelwert.",
  "At {1} heads of {2} number each it is down to {3} %: more questions, but so few numbers each to tell {4} keys apart with. Heads are a partition of the width, not an addition to it.":
    "Mit {1} Köpfen zu je {2} Zahl sind es nur noch {3} %: mehr Fragen, aber je so wenige Zahlen, um {4} Schlüssel zu unterscheiden. Köpfe teilen die Breite auf, sie kommen nicht dazu.",
  "This is the second set-up that was tried. In the first, twice as wide and among fewer keys, narrow heads did not fail (docs/log.md has its numbers): where the fall begins depends on the width and on how much there is to tell apart.":
    "Dies ist der zweite Aufbau, der versucht wurde. Im ersten, doppelt so breit und mit weniger Schlüsseln, versagten schmale Köpfe nicht (die Zahlen stehen in docs/log.md): Wo der Abfall beginnt, hängt von der Breite ab und davon, wie viel zu unterscheiden ist.",

  // Fragen und Merkmale, in Film, Mikroskop und Zensus
  Itself: "Es selbst",
  "First token": "Erstes Token",
  "Duplicate token": "Wiederholtes Token",
  Induction: "Induktion",
  "Entropy, nats": "Entropie, Nats",
  "Distance, tokens": "Abstand, Token",
  Entropy: "Entropie",
  Distance: "Abstand",
  nats: "Nats",
  tokens: "Token",
  share: "Anteil",
  document: "Dokument",
  row: "Zeile",
  "How much lands on the token just before?": "Wie viel fällt auf das Token direkt davor?",
  "How much stays on the token that is asking?": "Wie viel bleibt auf dem Token, das fragt?",
  "How much is parked on the first token?": "Wie viel ist auf dem ersten Token abgestellt?",
  "How much lands on earlier copies of this token?": "Wie viel fällt auf frühere Kopien dieses Tokens?",
  "How much lands on what followed this token before?": "Wie viel fällt auf das, was zuvor nach diesem Token kam?",
  "How widely is its attention spread?": "Wie breit ist seine Aufmerksamkeit verteilt?",
  "How far back does it read, on average?": "Wie weit zurück liest er im Mittel?",
  "previous-token score": "Score „vorheriges Token“",
  "induction score": "Score „Induktion“",
  "loss on the second copy": "Verlust auf der zweiten Kopie",
  "previous-token score, best head": "Score „vorheriges Token“, bester Kopf",
  "induction score, best head": "Score „Induktion“, bester Kopf",
  "loss on the second copy (nats)": "Verlust auf der zweiten Kopie (Nats)",

  // Das Modell, und eine veröffentlichte Seite
  "The embedded model": "Das mitgelieferte Modell",
  "this text has words that the model's tokenizer has no token for":
    "dieser Text hat Wörter, für die der Tokenizer des Modells kein Token hat",
  "this text is no longer kept; type it again": "dieser Text ist nicht mehr da; schreib ihn noch einmal",

  // Rollen
  "{1} inputs per probe, seed {2}; family-wise α {3} over {4} trials; Wilcoxon's signed ranks, one-sided, exact, score against the head's own strongest rival; Holm; 95 % bootstrap over inputs, {5} draws; {6} on {7}; {8}":
    "{1} Eingaben je Probe, Startwert {2}; familienweises α {3} über {4} Versuche; Wilcoxons Vorzeichen-Rang-Test, einseitig, exakt, Score gegen die stärkste andere Antwort des Kopfes; Holm; 95-%-Bootstrap über Eingaben, {5} Ziehungen; {6} auf {7}; {8}",
  "next token": "nächstes Token",
  copying: "Abschreiben",
  successor: "Nachfolger",
  "name mover": "Name-Mover",
  "negative name mover": "negativer Name-Mover",
  "S-inhibition": "S-Inhibition",
  retrieval: "Abruf",
  coreference: "Koreferenz",
  "verb to subject": "Verb zu Subjekt",
  "noun to modifier": "Nomen zu Adjektiv",
  negation: "Verneinung",
  alignment: "Ausrichtung",
  "alignment ahead": "Ausrichtung voraus",
  "Looks at the token before.": "Schaut auf das Token davor.",
  "Looks at the token after.": "Schaut auf das Token danach.",
  "Looks at its own token.": "Schaut auf sein eigenes Token.",
  "Rests on the first token: a sink, where attention goes that has nothing to look for.":
    "Ruht auf dem ersten Token: eine Senke, in die Aufmerksamkeit fließt, die nichts zu suchen hat.",
  "Looks at punctuation and separators.": "Schaut auf Satz- und Trennzeichen.",
  "Looks at earlier copies of its own token.": "Schaut auf frühere Kopien seines eigenen Tokens.",
  "Its OV circuit raises the token that it reads.": "Sein OV-Schaltkreis hebt das Token, das er liest.",
  "Finds an earlier copy of the token, and looks at (and predicts) what followed it there.":
    "Findet eine frühere Kopie des Tokens und schaut auf das, was dort folgte (und sagt es voraus).",
  "Raises what comes next after the token that it reads: Tuesday after Monday, 4 after 3.":
    "Hebt, was auf das gelesene Token folgt: Tuesday nach Monday, 4 nach 3.",
  "Where a name is due, looks at the person who has not acted yet and raises that name.":
    "Wo ein Name kommen muss, schaut er auf die Person, die noch nicht gehandelt hat, und hebt ihren Namen.",
  "Where a name is due, looks at the person who has not acted yet and lowers that name.":
    "Wo ein Name kommen muss, schaut er auf die Person, die noch nicht gehandelt hat, und senkt ihren Namen.",
  "Looks at the person who was named twice, and turns the name movers away from them.":
    "Schaut auf die Person, die zweimal genannt wurde, und lenkt die Name-Mover von ihr weg.",
  "Finds the one fact in a long text that the end asks about, and raises what it says.":
    "Findet in einem langen Text die eine Tatsache, nach der das Ende fragt, und hebt, was sie sagt.",
  "A pronoun looks at the person it stands for.": "Ein Pronomen schaut auf die Person, für die es steht.",
  "A verb looks at its subject, past other nouns.": "Ein Verb schaut auf sein Subjekt, an anderen Nomen vorbei.",
  "A noun looks at its own adjective.": "Ein Nomen schaut auf sein eigenes Adjektiv.",
  "A negated word looks at its “not”.": "Ein verneintes Wort schaut auf sein „not“.",
  "Looks at the same word in the source.": "Schaut auf dasselbe Wort in der Quelle.",
  "Looks at the word of the source that is to be written next.":
    "Schaut auf das Wort der Quelle, das als nächstes zu schreiben ist.",
  "Looks where your question's labels are equal.": "Schaut dorthin, wo die Marken deiner Frage gleich sind.",
  "nats per token": "Nats je Token",
  "accuracy: {1}": "Genauigkeit: {1}",
  "{1} random whole-word tokens, twice": "{1} zufälligen ganzen Wörtern, zweimal",
  "{1} random whole-word tokens, then the same in another order":
    "{1} zufälligen ganzen Wörtern, dann denselben in anderer Reihenfolge",
  "plain sentences, {1} tokens": "einfachen Sätzen, {1} Token",
  "random tokens among separators, {1} tokens": "Zufallstoken zwischen Trennzeichen, {1} Token",
  "the distractor": "das ablenkende Wort",
  "the earlier copy itself": "die frühere Kopie selbst",
  "two after the earlier copy": "zwei nach der früheren Kopie",

  // Fortschritt
  "reading the text": "Text wird gelesen",
  "drawing the pattern": "Muster wird gezeichnet",
  "finding each row's largest weight": "Größtes Gewicht jeder Zeile wird gesucht",
  "tracing back": "Vorhersage wird zurückverfolgt",

  // Modellkarten
  "token embeddings": "Token-Einbettungen",
  "place embeddings": "Platz-Einbettungen",
  "W_K and W_V, down": "W_K und W_V, hinab",
  "W_K and W_V, up": "W_K und W_V, hinauf",
  "attention, other": "Aufmerksamkeit, übrige",
  experts: "Experten",
  "shared experts": "geteilte Experten",
  router: "Router",
  norms: "Normen",
  unembedding: "Ausgabe-Einbettung",
  "looking back": "Zurückschauen",
  attention: "Aufmerksamkeit",
  "the config itself": "die Konfiguration selbst",
  "sizes given by hand": "von Hand angegebene Größen",
  "{1} query heads share each KV head: the cache is {2} times smaller than with a KV head for each, but there are still {3} different patterns per layer.":
    "Je {1} Anfrageköpfe teilen sich einen KV-Kopf: Der Cache ist {2}-mal kleiner als mit einem KV-Kopf für jeden, aber es gibt weiterhin {3} verschiedene Muster je Schicht.",
  "{1} × {2} = {3} is not d_model = {4}: d_head is chosen freely, and d_model / heads ({5}) would be wrong.":
    "{1} × {2} = {3} ist nicht d_model = {4}: d_head ist frei gewählt, und d_model / Köpfe ({5}) wäre falsch.",
  "The config leaves out the sizes of: {1}.": "In der Konfiguration fehlen die Größen von: {1}.",
  "{1} layers have no heads at all and cache no keys or values.":
    "{1} Schichten haben gar keine Köpfe und speichern weder Schlüssel noch Werte.",

  // Titel der Lektionen
  "One head": "Ein Kopf",
  "Why one head is not enough": "Warum ein Kopf nicht genügt",
  "Split, attend, concatenate, mix": "Aufteilen, aufmerken, aneinanderhängen, mischen",
  "What W_O does": "Was W_O tut",
  "What real heads learn, and that most have no name":
    "Was echte Köpfe lernen, und dass die meisten keinen Namen haben",
  "Head count is a partition": "Die Anzahl der Köpfe ist eine Aufteilung",
  "Self and cross": "Selbst- und Kreuzaufmerksamkeit",
  "Heads that share keys and values": "Köpfe, die Schlüssel und Werte teilen",
  "Heads are not layers, not experts": "Köpfe sind keine Schichten und keine Experten",
  "From distribution to token": "Von der Verteilung zum Token",
  "Measuring heads without storing the pattern": "Köpfe messen, ohne das Muster zu speichern",
  "The rest of a block: residual, norm, FFN": "Der Rest eines Blocks: Residuum, Norm, FFN",
  "Why heads drift apart": "Warum Köpfe auseinanderdriften",
  "From text to the next token: the whole way": "Vom Text zum nächsten Token: der ganze Weg",
  "Takeaways, in five minutes": "Das Wichtigste, in fünf Minuten",

  // Namen, die der Code einer Lektion macht
  someone: "jemand",
  doing: "tut etwas",
  linking: "verbindet",
  "points back": "verweist zurück",
  "What the model is given": "Was das Modell bekommt",
  "one head": "ein Kopf",
  "a second head": "ein zweiter Kopf",
  "twice as wide": "doppelt so breit",
  "another layer": "eine weitere Schicht",
  "a bigger FFN": "ein größeres FFN",
  "The row is shared out once. It finds one of the two towns, and guesses the other.":
    "Die Zeile wird einmal verteilt. Er findet eine der beiden Städte und rät die andere.",
  "Each head fetches one of the towns, and they come home side by side.":
    "Jeder Kopf holt eine der Städte, und sie kommen nebeneinander heim.",
  "A wider head has more numbers, but still one set of shares: one average.":
    "Ein breiterer Kopf hat mehr Zahlen, aber weiterhin einen Satz von Anteilen: einen Mittelwert.",
  "The second layer asks the second question, one step later.":
    "Die zweite Schicht stellt die zweite Frage, einen Schritt später.",
  "Every token here carries its name, so the blend still says which town is whose; a network that also knows the question can pick it apart.":
    "Jedes Token trägt hier seinen Namen, also sagt die Mischung noch, welche Stadt zu wem gehört; ein Netz, das auch die Frage kennt, kann sie auseinandernehmen.",
  previous: "vorheriges",
  first: "erstes",
  "Heads in a layer": "Köpfe in einer Schicht",
  "strength of the first layer": "Stärke der ersten Schicht",
  "length of the text": "Länge des Textes",
  "log₁₀ bytes of patterns": "log₁₀ Bytes der Muster",
  "log₁₀ bytes of rows": "log₁₀ Bytes der Zeilen",
  "how far token 5 is moved": "wie weit Token 5 verschoben wird",
  "attention elsewhere": "Aufmerksamkeit anderswo",
  "FFN elsewhere": "FFN anderswo",
  "run 1": "Lauf 1",
  "run 2": "Lauf 2",
  "run 3": "Lauf 3",
  "started equal": "gleich begonnen",
  step: "Schritt",
  "the embedding": "der Einbettung",
  embedding: "Einbettung",
  "block {1}": "Block {1}",
  "read after": "gelesen nach",
  "a space": "ein Leerzeichen",
  "multi-head attention": "Multi-Head-Aufmerksamkeit",
  "multi-query attention": "Multi-Query Attention",
  "{1} heads share each": "je {1} Köpfe teilen sich einen",
  "Released models": "Veröffentlichte Modelle",
  "Heads that wrote into the key": "Köpfe, die in den Schlüssel geschrieben haben",

  // Arbeitsblatt
  "From query and key to a score": "Von Anfrage und Schlüssel zum Score",
  "In “{1}”, the query of *{2}* is q = {3} and the key of *{4}* is k = {5}. Compute q·k. Then scale: the keys of a head of size d = {6} gave the products below; divide each by √d.":
    "In „{1}“ ist die Anfrage von *{2}* q = {3} und der Schlüssel von *{4}* k = {5}. Berechne q·k. Skaliere dann: Die Schlüssel eines Kopfes der Größe d = {6} ergaben die Produkte unten; teile jedes durch √d.",
  "scaled scores:": "skalierte Scores:",
  "q·k = {1}. Each product is divided by {2}, so that scores do not grow with the size of the head.":
    "q·k = {1}. Jedes Produkt wird durch {2} geteilt, damit die Scores nicht mit der Größe des Kopfes wachsen.",
  "From scores to shares": "Von Scores zu Anteilen",
  "Softmax: take e to the power of each score, then divide by the sum (e⁰ = 1.0, e¹ = 2.7, e² = 7.4, e³ = 20.1). Whom does *{1}* read most in “{2}”?":
    "Softmax: Nimm e hoch jeden Score und teile dann durch die Summe (e⁰ = 1,0; e¹ = 2,7; e² = 7,4; e³ = 20,1). Was liest *{1}* in „{2}“ am meisten?",
  score: "Score",
  "e to the score": "e hoch Score",
  value: "Wert",
  "sum of the second row:": "Summe der zweiten Zeile:",
  "shares, two digits:": "Anteile, zwei Stellen:",
  "read most:": "am meisten gelesen:",
  "{1}; each share is its part of that, so the shares add up to 1 (up to rounding).":
    "{1}; jeder Anteil ist sein Teil davon, also ergeben die Anteile zusammen 1 (bis auf Rundung).",
  "From shares to the head's output": "Von Anteilen zur Ausgabe des Kopfes",
  "The head's output for *{1}* is the average of the values, weighted by the shares.":
    "Die Ausgabe des Kopfes für *{1}* ist der Mittelwert der Werte, gewichtet mit den Anteilen.",
  "If all shares were .25, z =": "Wären alle Anteile 0,25: z =",
  "First number: {1}; the second in the same way.": "Erste Zahl: {1}; die zweite ebenso.",
  "Two heads side by side, then mixed": "Zwei Köpfe nebeneinander, dann gemischt",
  "Head 1 gives z₁ = {1}, head 2 gives z₂ = {2}. Lay them end to end, then multiply by W_O.":
    "Kopf 1 ergibt z₁ = {1}, Kopf 2 ergibt z₂ = {2}. Häng sie aneinander und multipliziere dann mit W_O.",
  "row of W_O": "Zeile von W_O",
  "column 1": "Spalte 1",
  "column 2": "Spalte 2",
  "end to end:": "hintereinander:",
  "times W_O:": "mal W_O:",
  "What would be lost if head 2 were zero? Output then:": "Was ginge verloren, wenn Kopf 2 null wäre? Ausgabe dann:",
  "First number: {1}. Rows 1–2 of W_O belong to head 1, rows 3–4 to head 2; their parts add up.":
    "Erste Zahl: {1}. Die Zeilen 1–2 von W_O gehören zu Kopf 1, die Zeilen 3–4 zu Kopf 2; ihre Teile addieren sich.",
  "The triangle": "Das Dreieck",
  "So far *{1}* could read words that come later, as in an encoder. A model that writes may only look back. Number the words of “{2}” from 1. And: a head gave three words the shares {3}, {4} and {5}, but the third comes later. It is left out before the softmax; what are the other two then?":
    "Bisher konnte *{1}* auch Wörter lesen, die später kommen, wie in einem Encoder. Ein Modell, das schreibt, darf nur zurückschauen. Nummeriere die Wörter von „{2}“ ab 1. Und: Ein Kopf gab drei Wörtern die Anteile {3}, {4} und {5}, aber das dritte kommt später. Es wird vor dem Softmax weggelassen; wie groß sind dann die anderen beiden?",
  "How many words can word {1}, “{2}”, look at?": "Wie viele Wörter kann Wort {1}, „{2}“, ansehen?",
  "In an encoder (BERT):": "In einem Encoder (BERT):",
  "The two shares:": "Die beiden Anteile:",
  "Itself and everything before it. Without the third, the first two share out 1 in the same proportion: {1} and {2}.":
    "Sich selbst und alles davor. Ohne das dritte teilen sich die ersten beiden 1 im selben Verhältnis: {1} und {2}.",
  "Reading a model card": "Eine Modellkarte lesen",
  "A card says: d_model {1}, {2} heads, {3} KV heads, {4} layers, 2 bytes per number. The cache keeps one key and one value for each token, layer and KV head.":
    "Auf einer Karte steht: d_model {1}, {2} Köpfe, {3} KV-Köpfe, {4} Schichten, 2 Bytes je Zahl. Der Cache hebt für jedes Token, jede Schicht und jeden KV-Kopf einen Schlüssel und einen Wert auf.",
  "A card says: d_model {1}, {2} heads, 1 KV head, {3} layers, 2 bytes per number. The cache keeps one key and one value for each token, layer and KV head.":
    "Auf einer Karte steht: d_model {1}, {2} Köpfe, 1 KV-Kopf, {3} Schichten, 2 Bytes je Zahl. Der Cache hebt für jedes Token, jede Schicht und jeden KV-Kopf einen Schlüssel und einen Wert auf.",
  "{1} bytes = {2}.": "{1} Bytes = {2}.",
  "query heads that share one KV head:": "Anfrageköpfe, die sich einen KV-Kopf teilen:",
  "bytes of cache for each token:": "Bytes im Cache für jedes Token:",
  "with as many KV heads as heads:": "mit so vielen KV-Köpfen wie Köpfen:",
};
export default served;
