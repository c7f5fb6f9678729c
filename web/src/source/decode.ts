// Decode the server's binary containers: looks, tiles of weights, attributions, importance.
import { unpack } from "../wire";
import type {
  Tile,
  Importance,
  Look,
  Received,
  LookCard,
  Attribution,
  AttributionCard,
  WeightsRequest,
} from "./source";

export function lookFrom(bytes: ArrayBuffer): Look {
  const { values, arrays } = unpack(bytes);
  const { answers, thumbnails, picture, waveform } = arrays;
  return {
    ...(values as LookCard),
    scores: answers.data as Float32Array,
    thumbnails: thumbnails.data as Uint8Array,
    side: thumbnails.shape[1],
    pixels: picture ? { height: picture.shape[0], width: picture.shape[1], bytes: picture.data as Uint8Array } : null,
    waveform: waveform ? (waveform.data as Float32Array) : null,
  };
}

export function receivedFrom(bytes: ArrayBuffer): Received {
  const { values, arrays } = unpack(bytes);
  return { ...(values as Omit<Received, "received">), received: arrays.received.data as Float32Array };
}

/** The same from a head's whole pattern, where there is no program to ask. */
export function receivedIn(tile: Tile): Received {
  const received = new Float32Array(tile.width);
  tile.weights.forEach((weight, at) => (received[at % tile.width] += weight / tile.height));
  const sink = received.reduce((most, value, key) => (value > received[most] ? key : most), 0);
  return { look: tile.look, head: tile.head, sink, received };
}

export function tileFrom(bytes: ArrayBuffer): Tile {
  const { values, arrays } = unpack(bytes);
  const [height, width] = arrays.weights.shape;
  const { look, head, rows, columns, pool, measure } = values as WeightsRequest;
  return { look, head, rows, columns, pool, measure, weights: arrays.weights.data as Float32Array, height, width };
}

export function attributionFrom(bytes: ArrayBuffer): Attribution {
  const { values, arrays } = unpack(bytes);
  const numbers = (name: string) => arrays[name].data as Float32Array;
  return {
    ...(values as AttributionCard),
    weights: numbers("reads"),
    z: numbers("delivered"),
    headOutputs: numbers("parts"),
    bias: numbers("bias"),
    output: numbers("output"),
    logits: numbers("shares"),
  };
}

export function importanceFrom(bytes: ArrayBuffer): Importance {
  const { values, arrays } = unpack(bytes);
  return { ...(values as { look: string; read: number }), importance: arrays.importance.data as Float32Array };
}
