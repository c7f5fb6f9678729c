// A picture or sound that is chosen or dropped: read into base64, and joined with the text where the model takes both.
import {
  streamsOf,
  tokensOf,
  type Look,
  type MediaFile,
  type ModelCard,
  type SiteCard,
  type Wanted,
} from "../../source/source";
import { words } from "../../words/words";
import { headsIn, headsOf, type HeadInfo } from "../state/look-statistics";
import type { ModelSource, Selection } from "../state/selection";

export const MOST_BYTES = 6_000_000; // the program reads no more

/** Whether a model reads text, or writes it: then a text goes with a picture or sound. */
export function takesText(model: ModelCard): boolean {
  return model.reads.includes("text") || model.sites.some((site) => site.queries === "written");
}

/** Whether a model reads pictures or sound. */
export function takesMedia(model: ModelCard): boolean {
  return model.reads.some((kind) => kind !== "text");
}

/** "a picture or a .wav file": what a model reads beside text, in words. */
export function kindsInWords(model: ModelCard): string {
  const said = words.media;
  const kinds = [
    ...(model.reads.includes("pictures") ? [said.pictures] : []),
    ...(model.reads.includes("sound") ? [said.sounds] : []),
  ];
  return kinds.length > 1 ? said.or(kinds[0], kinds[1]) : (kinds[0] ?? "");
}

export async function readMedia(file: File): Promise<MediaFile> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let letters = "";
  for (let at = 0; at < bytes.length; at += 0x8000) letters += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return { name: file.name, data: btoa(letters), text: null };
}

/** What is looked at when a text is typed while a file is open: both. */
export function withFile(wanted: Wanted, file: MediaFile | null, model: ModelCard): Wanted {
  if (!("text" in wanted) || !file) return wanted;
  return { media: { ...file, text: takesText(model) && wanted.text.trim() ? wanted.text : null } };
}

/** Whether a site's keys are patches of the picture or times of the sound, or its queries are patches. */
export function readsMedia(look: Look, site: SiteCard): boolean {
  const [queries, keys] = streamsOf(look, site);
  return !!look.media && (keys in look.media.grids || keys in look.media.covered || queries in look.media.grids);
}

/** Where to stand in the first look at a picture or sound: the chosen head where it reads it, else one that does; at the
 * last word in cross-attention and where words follow a picture, else at the first token. */
export function mediaPlace(look: Look, last: Look | null, model: ModelCard, chosen = -1): ReturnType<Selection> | null {
  if (!look.media || last?.media) return null;
  const heads = headsOf(model);
  const byWords = ({ site }: HeadInfo) =>
    (site.kind === "cross" && !(streamsOf(look, site)[0] in look.media!.grids)) ||
    (tokensOf(look, streamsOf(look, site)[0]).at(-1)?.id ?? -1) >= 0;
  const reading = heads.filter((each) => readsMedia(look, each.site));
  const found = reading.find(byWords) ?? reading[0] ?? heads[0];
  const head = chosen >= 0 && readsMedia(look, heads[chosen].site) ? heads[chosen] : found;
  return { head: heads.indexOf(head), token: byWords(head) ? Infinity : 0 };
}

/** The model with the sites that this look was the first to reach: a vision tower that no text runs. */
export async function withAllSites(opened: ModelSource, look: Look, signal: AbortSignal): Promise<ModelSource> {
  if (headsIn(look) === headsOf(opened.model).length) return opened;
  return { ...opened, model: await opened.source.model(signal) };
}
