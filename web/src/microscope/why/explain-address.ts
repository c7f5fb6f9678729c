// What is explained, in the address: "why=14:7&against=others&writer=k:4.3&group=1", or "trace=1&floor=.05".

/** A writer that was chosen: at the query (it asked) or at the key (it answered). */
export interface Pin {
  side: "q" | "k";
  name: string;
}

/** What a writer gives to the query, the key or the value of one head, at one key. */
export interface TracePath {
  writer: string;
  reader: string;
  into: "q" | "k" | "v";
  key: number;
}

export interface Explain {
  arrow: { query: number; key: number } | null;
  /** what the score is relative to: "mean", "others", or the position of another key */
  against: string;
  pin: Pin | null;
  /** the path is cut for all heads that read the same keys */
  group: boolean;
  tracing: boolean;
  floor: number;
  /** the part of a trace that is followed */
  part: string | null;
  /** the path of a trace that is cut */
  path: TracePath | null;
}

export const EXPLAIN: Explain = {
  arrow: null,
  against: "mean",
  pin: null,
  group: false,
  tracing: false,
  floor: 0.03,
  part: null,
  path: null,
};
export const FLOORS = [0.01, 0.02, 0.03, 0.05, 0.1, 0.2];

export function writeExplain(put: (name: string, value: string | number | null) => void, state: Explain): void {
  if (state.arrow) {
    put("why", `${state.arrow.query}:${state.arrow.key}`);
    if (state.against !== "mean") put("against", state.against);
    if (state.pin) put("writer", `${state.pin.side}:${state.pin.name}`);
    if (state.pin && state.group) put("group", 1);
  }
  if (!state.tracing) return;
  put("trace", 1);
  if (state.floor !== EXPLAIN.floor) put("floor", state.floor);
  put("part", state.part);
  if (state.path) put("path", [state.path.writer, state.path.reader, state.path.into, state.path.key].join(":"));
}

export function readExplain(fields: URLSearchParams): Explain {
  const arrow = /^(\d+):(\d+)$/.exec(fields.get("why") ?? "");
  const pin = /^([qk]):(.+)$/.exec(fields.get("writer") ?? "");
  const against = /^(others|\d+)$/.exec(fields.get("against") ?? "");
  const floor = Number(fields.get("floor"));
  const tracing = fields.get("trace") === "1";
  const path = /^(.+):(.+):([qkv]):(\d+)$/.exec(fields.get("path") ?? "");
  return {
    arrow: arrow && { query: Number(arrow[1]), key: Number(arrow[2]) },
    against: arrow && against ? against[1] : EXPLAIN.against,
    pin: arrow && pin && { side: pin[1] as Pin["side"], name: pin[2] },
    group: !!arrow && !!pin && fields.get("group") === "1",
    tracing,
    floor: tracing && FLOORS.includes(floor) ? floor : EXPLAIN.floor,
    part: tracing ? fields.get("part") : null,
    path:
      tracing && path
        ? { writer: path[1], reader: path[2], into: path[3] as TracePath["into"], key: Number(path[4]) }
        : null,
  };
}
