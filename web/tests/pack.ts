// Writes containers as src/headscope/app/wire.py does, for tests.
import type { Table } from "../src/wire";

const NAMES = new Map<unknown, string>([
  [Float64Array, "F64"],
  [Float32Array, "F32"],
  [Int32Array, "I32"],
  [Uint32Array, "U32"],
  [Uint16Array, "U16"],
  [Int8Array, "I8"],
  [Uint8Array, "U8"],
]);

export function pack(values: unknown, arrays: Record<string, Table>): ArrayBuffer {
  const text = new TextEncoder().encode(JSON.stringify(values));
  const all = Object.entries({ ...arrays, json: { data: text, shape: [text.length] } as Table });
  all.sort(([, a], [, b]) => b.data.BYTES_PER_ELEMENT - a.data.BYTES_PER_ELEMENT); // so each lies at a multiple of it
  let end = 0;
  const entries = all.map(([name, { data, shape }]) => {
    const start = end;
    end += data.byteLength;
    return [name, { dtype: NAMES.get(data.constructor), shape, data_offsets: [start, end] }];
  });
  const json = JSON.stringify(Object.fromEntries(entries));
  const header = new TextEncoder().encode(json + " ".repeat((8 - (new TextEncoder().encode(json).length % 8)) % 8));
  const bytes = new Uint8Array(8 + header.length + end);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true);
  bytes.set(header, 8);
  let at = 8 + header.length;
  for (const [, { data }] of all) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return bytes.buffer;
}
