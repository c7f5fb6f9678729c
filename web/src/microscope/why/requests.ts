// Requests about what is explained: the split of an arrow, the cut of a path, the trace of a prediction.
import { untrack } from "svelte";
import { tokensOf, type Look, type TraceRequest, type WhyRequest } from "../../source/source";
import { words } from "../../words/words";
import type { Microscope } from "../state/microscope.svelte";

type Undo = (() => void) | void;

/** The arrow is of the selected row: one that is left closes it. */
export function fetchWhy(scope: Microscope): Undo {
  const { look, here, source, explaining, token } = scope;
  const { arrow, against } = explaining;
  if (!look || !here || !arrow) return;
  if (arrow.query !== token || arrow.key >= scope.keys.length) return untrack(() => explaining.close());
  const { query, key } = arrow;
  const minus: WhyRequest["minus"] = against === "mean" || against === "others" ? against : Number(against);
  const wanted = { look: look.look, head: here.name, query, key, minus };
  return untrack(() =>
    source.why ? explaining.why.ask((signal) => source.why!(wanted, signal), words.why.notInFile) : undefined,
  );
}

export function fetchCut(scope: Microscope): Undo {
  const { source, explaining, look } = scope;
  const { pin, group } = explaining;
  const why = explaining.why.found;
  if (!look || !why || !pin || !predicts(scope)) return untrack(() => explaining.cut.clear());
  const share = (pin.side === "q" ? why.asked : why.answered).find((each) => each.name === pin.name);
  if (!share || share.kind === "reader" || !source.cutPath) return untrack(() => explaining.cut.clear());
  const path = { writer: pin.name, reader: why.head, into: pin.side, query: why.query.position, key: why.key.position };
  const wanted = {
    look: look.look,
    ...path,
    position: null,
    token: scope.toward,
    group: group && why.group.length > 1,
  };
  return untrack(() => explaining.cut.ask((signal) => source.cutPath!(wanted, signal), words.why.notInFile));
}

/** Whether the rows of the selected head are tokens after which the model predicts the next one. */
function predicts(scope: Microscope): boolean {
  const { look, here, model } = scope;
  return !!look && !!here && !!model?.vocabulary && tokensOf(look, here.site.queries) === tokensOf(look, "written");
}

/** What is asked when the selected prediction is traced. */
function traceRequest(scope: Microscope, look: Look): TraceRequest {
  const { explaining, token, toward, minus, tokens } = scope;
  const written = tokensOf(look, "written");
  const position = tokens === written ? token : written.length - 1;
  return { look: look.look, position, token: toward, minus, floor: explaining.floor };
}

/** Ask for the command that traces this prediction, where the page itself cannot; null where it can. */
export function fetchTraceCommand(scope: Microscope, tell: (command: string | null) => void): Undo {
  const { look, source } = scope;
  if (!look || !source.traceCommand) return;
  let left = false;
  source.traceCommand(traceRequest(scope, look)).then((command) => left || tell(command), () => undefined); // prettier-ignore
  return () => (left = true);
}

export function fetchTrace(scope: Microscope): Undo {
  const { look, source, explaining } = scope;
  if (!look || !explaining.tracing) return;
  const wanted = traceRequest(scope, look);
  return untrack(() =>
    source.trace ? explaining.trace.ask((signal) => source.trace!(wanted, signal), words.trace.notInFile) : undefined,
  );
}

/** The path of a trace that is cut, and what that does to the traced token. */
export function fetchTraceCut(scope: Microscope): Undo {
  const { source, explaining } = scope;
  const { path, tracing } = explaining;
  const trace = explaining.trace.found;
  if (!tracing || !path || !trace || !source.cutPath) return untrack(() => explaining.traceCut.clear());
  const query = trace.position.position;
  const wanted = { look: trace.look, ...path, query, position: query, token: trace.token.id, group: false };
  return untrack(() => explaining.traceCut.ask((signal) => source.cutPath!(wanted, signal), words.why.notInFile));
}
