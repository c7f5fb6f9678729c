// The microscope's state in its address, so that a copied link shows the same view.
import type { Viewport } from "../../draw/heat-map";
import type { Edge, Measure } from "../../source/source";

import { EXPLAIN, readExplain, writeExplain, type Explain } from "../why/explain-address";

/** Which text, through which model, and where one stands in it. */
export interface Place {
  model: string | null;
  text: string | null;
  look: string | null;
  token: number | null;
}

export interface State extends Place {
  head: string | null;
  view: "map" | "arcs" | "media";
  measure: Measure;
  facing: "reads" | "read";
  zoom: Viewport | null;
  show: string;
  order: "layers" | "ranked";
  aside: boolean;
  compare: boolean;
  how: "zero" | "mean";
  off: string[];
  knockOuts: Edge[];
  lens: boolean; // the likeliest token after every layer
  patch: "scores" | "z" | "resid_pre" | "attn_out" | "mlp_out"; // what is compared: scores, or what is patched
  toward: number | null;
  minus: number | null;
  explain: Explain; // an arrow, or a prediction, that is explained
  other: Place | null; // what stands beside it, to compare
}

export const NO_TEXT: Place = { model: null, text: null, look: null, token: null };
export const INITIAL: State = {
  ...NO_TEXT,
  head: null,
  view: "map",
  measure: "weight",
  facing: "reads",
  zoom: null,
  show: "",
  order: "layers",
  aside: false,
  compare: true,
  how: "zero",
  off: [],
  knockOuts: [],
  lens: false,
  patch: "scores",
  toward: null,
  minus: null,
  explain: EXPLAIN,
  other: null,
};

const VERSION = "1";
export const LONGEST_TEXT_IN_ADDRESS = 1500;

/** "#microscope?text=…&head=5.1": long texts travel by the name of their look, which the program keeps. */
export function writeAddress(state: State): string {
  const fields = new URLSearchParams({ v: VERSION });
  const put = (name: string, value: string | number | null, unless?: string | number | null) => {
    if (value !== null && value !== unless) fields.set(name, String(value));
  };
  writePlace(put, state, "");
  put("head", state.head);
  for (const name of ["view", "measure", "facing", "show", "order", "how", "patch"] as const)
    put(name, state[name], INITIAL[name]);
  if (state.zoom)
    put("zoom", [state.zoom.row, state.zoom.column, state.zoom.span].map((at) => Math.round(at * 10) / 10).join(","));
  if (state.lens) put("lens", 1);
  if (state.aside) put("aside", 1);
  if (!state.compare) put("compare", 0);
  if (state.off.length) put("off", state.off.join(","));
  if (state.knockOuts.length)
    put("cut", state.knockOuts.map(({ head, query, key }) => `${head}:${query}:${key}`).join(","));
  put("toward", state.toward);
  put("minus", state.minus);
  writeExplain(put, state.explain);
  if (state.other) writePlace(put, state.other, "2");
  return `#microscope?${fields}`;
}

function writePlace(put: (name: string, value: string | number | null) => void, place: Place, suffix: string): void {
  put(`model${suffix}`, place.model);
  if (place.text !== null && place.text.length <= LONGEST_TEXT_IN_ADDRESS) put(`text${suffix}`, place.text);
  else put(`look${suffix}`, place.look);
  put(`token${suffix}`, place.token);
}

export function readAddress(address: string): State {
  const fields = new URLSearchParams(address.split("?").slice(1).join("?"));
  const oneOf = <Choice extends string>(name: string, choices: readonly Choice[]) =>
    choices.find((choice) => choice === fields.get(name)) ?? choices[0];
  const other = readPlace(fields, "2");
  return {
    ...readPlace(fields, ""),
    head: fields.get("head"),
    view: oneOf("view", ["map", "arcs", "media"]),
    measure: oneOf("measure", ["weight", "row", "value"]),
    facing: oneOf("facing", ["reads", "read"]),
    zoom: readZoom(fields.get("zoom")),
    show: fields.get("show") ?? "",
    order: oneOf("order", ["layers", "ranked"]),
    aside: fields.get("aside") === "1",
    compare: fields.get("compare") !== "0",
    how: oneOf("how", ["zero", "mean"]),
    off: fields.get("off")?.split(",").filter(Boolean) ?? [],
    knockOuts: readKnockOuts(fields.get("cut")),
    lens: fields.get("lens") === "1",
    patch: oneOf("patch", ["scores", "z", "resid_pre", "attn_out", "mlp_out"]),
    toward: whole(fields.get("toward")),
    minus: whole(fields.get("minus")),
    explain: readExplain(fields),
    other: Object.values(other).every((value) => value === null) ? null : other,
  };
}

const whole = (text: string | null) => (text !== null && /^\d+$/.test(text) ? Number(text) : null);

function readPlace(fields: URLSearchParams, suffix: string): Place {
  return {
    model: fields.get(`model${suffix}`),
    text: fields.get(`text${suffix}`),
    look: fields.get(`look${suffix}`),
    token: whole(fields.get(`token${suffix}`)),
  };
}

function readZoom(text: string | null): Viewport | null {
  const [row, column, span] = (text ?? "").split(",").map(Number);
  return span > 0 && row >= 0 && column >= 0 ? { row, column, span } : null;
}

/** "5.6:14:7,…": arrows of heads, query to key. */
function readKnockOuts(text: string | null): Edge[] {
  return (text ?? "").split(",").flatMap((each) => {
    const found = /^(.+):(\d+):(\d+)$/.exec(each);
    return found ? [{ head: found[1], query: Number(found[2]), key: Number(found[3]) }] : [];
  });
}
