// Containers of JSON and arrays, in the safetensors format; src/headscope/app/wire.py writes them.

const KINDS = {
  F64: Float64Array,
  F32: Float32Array,
  I32: Int32Array,
  U32: Uint32Array,
  U16: Uint16Array,
  I8: Int8Array,
  U8: Uint8Array,
} as const;

export type Numbers = InstanceType<(typeof KINDS)[keyof typeof KINDS]>;

export interface Table {
  data: Numbers;
  shape: number[];
}

export interface Container {
  values: unknown;
  arrays: Record<string, Table>;
}

interface Entry {
  dtype: keyof typeof KINDS;
  shape: number[];
  data_offsets: [number, number];
}

/** The array that holds the JSON. */
const JSON_ARRAY = "json";

const decode = (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(bytes));

/** The values and arrays of a container; the arrays are views of its bytes. */
export function unpack(bytes: ArrayBuffer): Container {
  const length = bytes.byteLength < 8 ? Infinity : Number(new DataView(bytes).getBigUint64(0, true));
  if (8 + length > bytes.byteLength) throw new Error(`These ${bytes.byteLength} bytes are not a container.`);
  const arrays: Record<string, Table> = {};
  for (const [name, entry] of Object.entries(decode(new Uint8Array(bytes, 8, length)) as Record<string, Entry>)) {
    const kind = KINDS[entry.dtype];
    const [start, end] = entry.data_offsets;
    const data = new kind(bytes, 8 + length + start, (end - start) / kind.BYTES_PER_ELEMENT);
    arrays[name] = { data, shape: entry.shape };
  }
  const { [JSON_ARRAY]: text, ...others } = arrays;
  return { values: decode(text.data as Uint8Array), arrays: others };
}

export const fromBase64 = (text: string): ArrayBuffer =>
  Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
