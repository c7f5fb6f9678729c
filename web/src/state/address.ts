// The address holds the whole state, so that a copied link shows the same picture. Pure: text in, text out.

export interface State {
  text: string | null;
  look: string | null;
  head: string | null;
  token: number | null;
  view: "map" | "arcs";
  show: string;
  order: "layers" | "ranked";
  aside: boolean;
  compare: boolean;
  how: "zero" | "mean";
  off: string[];
}

export const BEGINNING: State = {
  text: null,
  look: null,
  head: null,
  token: null,
  view: "map",
  show: "",
  order: "layers",
  aside: false,
  compare: true,
  how: "zero",
  off: [],
};

const VERSION = "1";
export const LONGEST_TEXT_IN_ADDRESS = 1500;

/** "#microscope?text=…&head=5.1": long texts travel by the name of their look, which the program keeps. */
export function write(state: State): string {
  const fields = new URLSearchParams({ v: VERSION });
  if (state.text !== null && state.text.length <= LONGEST_TEXT_IN_ADDRESS) fields.set("text", state.text);
  else if (state.look !== null) fields.set("look", state.look);
  if (state.head !== null) fields.set("head", state.head);
  if (state.token !== null) fields.set("token", String(state.token));
  if (state.view !== BEGINNING.view) fields.set("view", state.view);
  if (state.show !== BEGINNING.show) fields.set("show", state.show);
  if (state.order !== BEGINNING.order) fields.set("order", state.order);
  if (state.aside) fields.set("aside", "1");
  if (!state.compare) fields.set("compare", "0");
  if (state.how !== BEGINNING.how) fields.set("how", state.how);
  if (state.off.length) fields.set("off", state.off.join(","));
  return `#microscope?${fields}`;
}

export function read(address: string): State {
  const fields = new URLSearchParams(address.split("?").slice(1).join("?"));
  const oneOf = <Choice extends string>(name: string, choices: readonly Choice[]) =>
    choices.find((choice) => choice === fields.get(name)) ?? choices[0];
  const token = fields.get("token");
  return {
    text: fields.get("text"),
    look: fields.get("look"),
    head: fields.get("head"),
    token: token !== null && /^\d+$/.test(token) ? Number(token) : null,
    view: oneOf("view", ["map", "arcs"]),
    show: fields.get("show") ?? "",
    order: oneOf("order", ["layers", "ranked"]),
    aside: fields.get("aside") === "1",
    compare: fields.get("compare") !== "0",
    how: oneOf("how", ["zero", "mean"]),
    off: fields.get("off")?.split(",").filter(Boolean) ?? [],
  };
}
