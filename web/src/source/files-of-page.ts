// The files of a page: beside it on its server, or inside it where a published site is one file.
import { fromBase64 } from "../wire";
import { Problem } from "./problem";
import { words } from "../words/words";
import { unzipped, type Place } from "./published/files";

let inside: Map<string, HTMLElement> | null = null;
const unpacked = new Map<string, Promise<Blob>>();

function embedded(): Map<string, HTMLElement> {
  const find = () => [...document.querySelectorAll<HTMLElement>("script[data-file]")];
  return (inside ??= new Map(find().map((element) => [element.dataset.file!, element])));
}

/** Whether the page and all its files are one file, which nothing can be fetched beside. */
export const isOneFile = (): boolean => embedded().size > 0;

/** Where a file is: its address, or what the page holds of it. */
export async function placeOf(path: string): Promise<Place> {
  if (!isOneFile()) return new URL(path, document.baseURI).href;
  const known = unpacked.get(path) ?? unpack(path);
  unpacked.set(path, known);
  return known;
}

export async function bytesOf(path: string): Promise<ArrayBuffer> {
  const place = await placeOf(path);
  if (typeof place !== "string") return place.arrayBuffer();
  const response = await fetch(place).catch(() => Promise.reject(new Problem("Offline", words.published.offline)));
  if (!response.ok) throw new Problem("Missing", words.published.missing(path, response.status));
  return response.arrayBuffer();
}

/** An address for a link to a file, or for a worker to start from. */
export async function addressOf(path: string): Promise<string> {
  const place = await placeOf(path);
  return typeof place === "string" ? place : URL.createObjectURL(place);
}

/** What the page holds in base64, compressed where that made it smaller. The text itself is let go. */
async function unpack(path: string): Promise<Blob> {
  const element = embedded().get(path);
  if (!element) throw new Problem("Missing", words.published.missing(path, 404));
  const bytes = fromBase64(element.textContent);
  element.textContent = "";
  const content = element.dataset.packed === "gzip" ? await unzipped(bytes) : bytes;
  return new Blob([content], { type: path.endsWith(".js") ? "text/javascript" : "" });
}
