// The binary container in which arrays travel; src/headscope/app/wire.py is its mirror.

const KINDS = {
  float32: Float32Array,
  float64: Float64Array,
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
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
  name: string;
  dtype: keyof typeof KINDS;
  shape: number[];
  offset: number;
}

const MAGIC = "HSC1";

export function unpack(bytes: ArrayBuffer): Container {
  const view = new DataView(bytes);
  const magic = bytes.byteLength < 8 ? "" : String.fromCharCode(...new Uint8Array(bytes, 0, 4));
  if (magic !== MAGIC) throw new Error(`These ${bytes.byteLength} bytes are not a container.`);
  const start = 8 + view.getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, start - 8)));
  const arrays: Record<string, Table> = {};
  for (const { name, dtype, shape, offset } of header.arrays as Entry[]) {
    const count = shape.reduce((product, side) => product * side, 1);
    arrays[name] = { data: new KINDS[dtype](bytes, start + offset, count), shape };
  }
  return { values: header.values, arrays };
}

export function pack(values: unknown, arrays: Record<string, Table>): ArrayBuffer {
  const entries: Entry[] = [];
  let length = 0;
  for (const [name, { data, shape }] of Object.entries(arrays)) {
    const dtype = (Object.keys(KINDS) as Entry["dtype"][]).find((kind) => data instanceof KINDS[kind])!;
    entries.push({ name, dtype, shape, offset: length });
    length += Math.ceil(data.byteLength / 8) * 8;
  }
  const text = new TextEncoder().encode(JSON.stringify({ values, arrays: entries }));
  const start = Math.ceil((8 + text.length) / 8) * 8;
  const bytes = new Uint8Array(start + length).fill(32, 8, start);
  bytes.set(new TextEncoder().encode(MAGIC));
  new DataView(bytes.buffer).setUint32(4, start - 8, true);
  bytes.set(text, 8);
  for (const { name, offset } of entries) {
    const { data } = arrays[name];
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), start + offset);
  }
  return bytes.buffer;
}
