// Die Seite auf Deutsch. Wortwahl, einmal entschieden und überall gleich (auch in den Lektionen):
//
//   attention Aufmerksamkeit · head Kopf, Aufmerksamkeitskopf · multi-head Multi-Head · token Token · query Anfrage (q) ·
//   key Schlüssel (k) · value Wert (v) · score Score · share Anteil · attention weight Aufmerksamkeitsgewicht · pattern Muster ·
//   residual stream Residualstrom · layer Schicht · causal kausal · encoder Encoder · cross-attention Kreuzaufmerksamkeit ·
//   concatenate aneinanderhängen · output matrix Ausgabematrix W_O · embedding Einbettung · logit Logit · logit attribution
//   Logit-Attribution · entropy Entropie · loss Verlust · knock-out Knock-out · zero/mean ablation Null-/Mittelwert-Ablation ·
//   edit Eingriff · role Rolle · question Frage · null Nullwert · interval Intervall · seed Startwert · census Zensus ·
//   induction Induktion · previous token vorheriges Token · model card Modellkarte · KV head KV-Kopf · bring home heimbringen
//
// Anrede: du. Zahlen haben ein Komma: 0,62 im Satz, ,62 in engen Abbildungen; im Code und in dem, was er druckt, einen Punkt.
// Wörter aus Beispielsätzen, die das Modell liest, bleiben englisch.
import type { Words } from "../words";
import byHand from "./by-hand";
import censusScan from "./pages/census-scan";
import classroom from "./classroom";
import errors from "./errors";
import examples from "./examples";
import fourHeads from "./four-heads";
import frame from "./frame";
import glossary from "./glossary";
import learn from "./learn";
import microscope from "./microscope";
import published from "./published";
import served from "./served";
import start from "./start";
import tour from "./tour";
import ui from "./ui";
import cards from "./pages/cards";
import census from "./pages/census";
import film from "./pages/film";
import grid from "./pages/grid";
import head from "./pages/head";
import media from "./pages/media";
import oneOrMany from "./pages/one-or-many";
import pattern from "./pages/pattern";
import prediction from "./pages/prediction";
import printed from "./pages/printed";
import runtime from "./pages/runtime";
import trace from "./pages/trace";
import why from "./pages/why";

const de: Words = {
  byHand,
  cards,
  census,
  censusScan,
  classroom,
  examples,
  film,
  fourHeads,
  frame,
  glossary,
  grid,
  head,
  learn,
  media,
  microscope,
  oneOrMany,
  pattern,
  prediction,
  printed,
  published,
  runtime,
  served: { ...served, ...errors },
  start,
  tour,
  trace,
  ui,
  why,
};
export default de;
