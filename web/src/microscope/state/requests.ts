// Requests of the microscope: weights, logit attribution, prediction, importance. Each cancels the one it replaces.
import { untrack } from "svelte";
import { poolFor } from "../../draw/heat-map";
import { messageOf, tokensOf, type Tile } from "../../source/source";
import { divide } from "../head/where";
import { WHOLE, type Microscope } from "./microscope.svelte";
import type { PatternLine } from "./selection";

const PROGRESS = 600;
const GUESSES = 6;

type Undo = (() => void) | void;

export function fetchTile(scope: Microscope): Undo {
  const { look, here, length, keys, measure } = scope;
  const { aside } = scope.settings;
  if (!look || !here) return;
  const { row, column, span } = scope.viewport;
  const pool = scope.whole ? 1 : poolFor(span, WHOLE);
  const range = (at: number, end: number): [number, number] =>
    scope.whole ? [0, end] : [Math.floor(at / pool) * pool, Math.min(end, Math.ceil((at + span) / pool) * pool)];
  return scope.fetch(
    "weights",
    (signal) =>
      scope.fetchWeights(look, here.name, range(row, length), range(column, keys.length), pool, {
        signal,
        measure,
        aside,
      }),
    (tile) => (scope.tile = tile),
  );
}

export function fetchOverview(scope: Microscope): Undo {
  const { look, here, length, keys, extent, measure } = scope;
  const { aside } = scope.settings;
  if (!look || !here || scope.whole) return;
  return scope.fetch(
    "overview",
    (signal) =>
      scope.fetchWeights(look, here.name, [0, length], [0, keys.length], poolFor(extent, WHOLE), {
        signal,
        measure,
        aside,
      }),
    (tile) => (scope.overview = tile),
  );
}

/** The selected token's row: exact weights, whatever the picture shows. */
export function fetchRow(scope: Microscope): Undo {
  const { look, here, token, length, keys, tile } = scope;
  if (!look || !here || token >= length) return;
  const line = (weights: Float32Array): PatternLine => ({ look: look.look, head: here.name, token, weights });
  if (scope.whole && scope.measure === "weight") {
    if (tile?.look !== look.look || tile.head !== here.name || tile.measure !== "weight") return;
    scope.row = line(tile.weights.subarray(token * keys.length, (token + 1) * keys.length));
    return;
  }
  return scope.fetch(
    "row",
    (signal) => scope.fetchWeights(look, here.name, [token, token + 1], [0, keys.length], 1, { signal }),
    (row) => (scope.row = line(row.weights)),
  );
}

/** The selected token's column: who reads it, and how much. */
export function fetchColumn(scope: Microscope): Undo {
  const { look, here, token, length, keys } = scope;
  if (!look || !here || scope.settings.facing !== "read" || token >= keys.length) return;
  const put = (column: Tile) => (scope.column = { look: look.look, head: here.name, token, weights: column.weights });
  return scope.fetch(
    "column",
    (signal) => scope.fetchWeights(look, here.name, [0, length], [token, token + 1], 1, { signal }),
    put,
  );
}

export function fetchAttribution(scope: Microscope): Undo {
  const { look, here, token, toward, minus } = scope;
  if (!look || !here) return;
  const wanted = { look: look.look, site: here.site.name, position: token, toward, minus };
  // a file holds the attribution of few positions: show none rather than that of another
  scope.attribution = scope.source.live ? untrack(() => scope.attribution) : null;
  return scope.fetch(
    "mix",
    (signal) => scope.source.attribution(wanted, signal),
    (attribution) => (scope.attribution = attribution),
  );
}

export function fetchPrediction(scope: Microscope): Undo {
  const { look, here, token, ablated, edges } = scope;
  const { how } = scope.settings;
  if (!look || !here) return;
  const written = tokensOf(look, "written");
  const position = scope.tokens === written ? token : written.length - 1;
  const wanted = {
    look: look.look,
    position,
    off: ablated,
    cuts: edges,
    how,
    count: GUESSES,
  };
  return scope.fetch(
    "predict",
    (signal) => scope.source.predict(wanted, signal),
    (prediction) => (scope.prediction = prediction),
  );
}

/** Where the head's attention goes, of a head whose queries are its keys. */
export function fetchWhere(scope: Microscope): Undo {
  const { look, here, whole, length, tokens } = scope;
  const self = here?.site.kind === "self" && here.site.queries === here.site.keys && length > 1;
  if (!look || look.media || !self || !whole) return void (scope.where = null);
  return scope.fetch(
    "where",
    (signal) => scope.fetchWeights(look, here.name, [0, length], [0, length], 1, { signal }),
    (tile) => (scope.where = { look: look.look, head: here.name, shares: divide(tokens, here.site.causal, tile) }),
  );
}

/** Which key receives most of the head's attention; of a picture or sound, where it need not be the first. */
export function fetchReceived(scope: Microscope): Undo {
  const { look, here } = scope;
  scope.sink = 0;
  scope.received = null;
  const { source } = scope;
  if (!look?.media || !here || !source.received) return;
  return scope.fetch(
    "received",
    (signal) => source.received!({ look: look.look, head: here.name }, signal),
    (received) => Object.assign(scope, { received, sink: received.sink }),
  );
}

/** Work that takes longer than a moment says how far it is. */
export function followProgress(scope: Microscope): Undo {
  const { source } = scope;
  if (scope.working === 0 || !source.progress) return;
  const asking = setInterval(async () => (scope.progress = await source.progress!().catch(() => null)), PROGRESS);
  return () => {
    clearInterval(asking);
    scope.progress = null;
  };
}

/** How much the heads matter is measured only for those who ask. */
export function fetchImportance(scope: Microscope): Undo {
  const { look } = scope;
  if (!look || scope.show !== "importance") return;
  const asking = new AbortController();
  const answer = scope.source.importance({ look: look.look }, asking.signal);
  untrack(() => {
    scope.working++;
    scope.importanceError = "";
  });
  answer
    .then((found) => asking.signal.aborted || (scope.importance = found))
    .catch((error: Error) => asking.signal.aborted || (scope.importanceError = messageOf(error)))
    .finally(() => scope.working--);
  return () => asking.abort();
}
