// A page that was saved: every answer it holds lies in one container inside the file (app/export.py writes it).
import { unpack, type Container } from "../wire";
import { fieldFrom, lookFrom, mixFrom } from "./answers";
import { Problem, type ModelCard, type Prediction, type Roles, type Source } from "./source";

const NOT_HERE = "This file holds one text and no model. For this, open the text in headscope.";

/** Each answer is a container of its own, and must begin at a place of its own for typed arrays to lie on it. */
function part(bundle: Container, name: string): ArrayBuffer {
  const found = bundle.arrays[name];
  if (!found) throw new Problem("NotInFile", NOT_HERE);
  return found.data.slice().buffer as ArrayBuffer;
}

export function fileSource(bytes: ArrayBuffer): Source {
  const bundle = unpack(bytes);
  const { model, predictions, roles } = bundle.values as { model: ModelCard; predictions: Prediction[]; roles: Roles };
  return {
    live: false,
    model: async () => model,
    look: async () => lookFrom(part(bundle, "look")),
    weights: async ({ head }) => fieldFrom(part(bundle, `weights ${head}`)),
    mix: async ({ site, position }) => mixFrom(part(bundle, `mix ${site} ${position}`)),
    predict: async ({ position }) => predictions[position],
    roles: async () => roles,
    testHeads: async () => roles,
  };
}

/** The bytes inside the page, where it is a saved one. */
export function bytesInPage(id = "headscope-data"): ArrayBuffer | null {
  const text = document.getElementById(id)?.textContent;
  return text ? (Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer as ArrayBuffer) : null;
}
