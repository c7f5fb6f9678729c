// Decode the server's binary containers: looks, tiles of weights, attributions, importance.
import { unpack } from "../wire";
import type {
  Tile,
  RulePattern,
  Importance,
  Look,
  LookCard,
  Attribution,
  AttributionCard,
  WeightsRequest,
} from "./source";

export function lookFrom(bytes: ArrayBuffer): Look {
  const { values, arrays } = unpack(bytes);
  const { answers, thumbnails } = arrays;
  return {
    ...(values as LookCard),
    scores: answers.data as Float32Array,
    thumbnails: thumbnails.data as Uint8Array,
    side: thumbnails.shape[1],
  };
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

export function rulePatternFrom(bytes: ArrayBuffer): RulePattern {
  const { values, arrays } = unpack(bytes);
  return { ...(values as { look: string; head: string }), weights: arrays.weights.data as Float32Array };
}
