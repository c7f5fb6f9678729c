// Attention for the lookup models, forwards and back: at every token, and at the last token alone.
import { addScaled, dot, Matrix, softmax, type Tape } from "./backward";

/** Causal attention at every token of rows of this length; columns of q, k and v are [head, d_head]. */
export function attend(tape: Tape, [q, k, v]: [Matrix, Matrix, Matrix], heads: number, length: number): Matrix {
  const [wide, dHead] = [q.columns, q.columns / heads];
  const scale = dHead ** -0.5;
  const z = new Matrix(new Float64Array(q.data.length), wide);
  const patterns: Float64Array[] = [];
  const each = (act: (query: number, first: number, place: number) => void) => {
    for (let row = 0; row < q.rows / length; row++)
      for (let head = 0; head < heads; head++)
        for (let place = 0; place < length; place++)
          act((row * length + place) * wide + head * dHead, row * length * wide + head * dHead, place);
  };
  each((query, first, place) => {
    const pattern = new Float64Array(place + 1);
    for (let key = 0; key <= place; key++) pattern[key] = scale * dot(q.data, query, k.data, first + key * wide, dHead);
    softmax(pattern);
    for (let key = 0; key <= place; key++) addScaled(z.data, query, v.data, first + key * wide, dHead, pattern[key]);
    patterns.push(pattern);
  });
  tape.then(() => {
    let number = 0;
    each((query, first, place) => {
      const pattern = patterns[number++];
      const back = new Float64Array(place + 1);
      for (let key = 0; key <= place; key++) {
        back[key] = dot(z.grad, query, v.data, first + key * wide, dHead);
        addScaled(v.grad, first + key * wide, z.grad, query, dHead, pattern[key]);
      }
      const mean = dot(back, 0, pattern, 0, place + 1);
      for (let key = 0; key <= place; key++) {
        const share = scale * pattern[key] * (back[key] - mean);
        addScaled(q.grad, query, k.data, first + key * wide, dHead, share);
        addScaled(k.grad, first + key * wide, q.data, query, dHead, share);
      }
    });
  });
  return z;
}

/** Attention of the last token alone. It needs no keys and values: q·(W_K n) = (W_Kᵀ q)·n, and Σ p W_V n = W_V Σ p n. */
export function attendLast(
  tape: Tape,
  x: Matrix, // normed, [row · token, d_model]
  q: Matrix, // [row, head · d_head]
  [wK, wV]: [Matrix, Matrix],
  heads: number,
): Matrix {
  const [rows, wide, width] = [q.rows, q.columns, x.columns];
  const [length, dHead] = [x.rows / rows, wide / heads];
  const scale = dHead ** -0.5;
  const z = new Matrix(new Float64Array(q.data.length), wide);
  const folded = new Float64Array(rows * heads * width); // W_Kᵀ q
  const read = new Float64Array(rows * heads * width); // Σ p n
  const patterns = new Float64Array(rows * heads * length);
  const each = (act: (at: { own: number; row: number; head: number; pattern: Float64Array }) => void) => {
    for (let row = 0; row < rows; row++)
      for (let head = 0; head < heads; head++) {
        const own = row * heads + head;
        act({ own: own * width, row, head, pattern: patterns.subarray(own * length, (own + 1) * length) });
      }
  };
  each(({ own, row, head, pattern }) => {
    for (let d = head * dHead; d < (head + 1) * dHead; d++)
      addScaled(folded, own, wK.data, d * width, width, scale * q.data[row * wide + d]);
    for (let key = 0; key < length; key++) pattern[key] = dot(folded, own, x.data, (row * length + key) * width, width);
    softmax(pattern);
    for (let key = 0; key < length; key++)
      addScaled(read, own, x.data, (row * length + key) * width, width, pattern[key]);
    for (let d = head * dHead; d < (head + 1) * dHead; d++)
      z.data[row * wide + d] = dot(wV.data, d * width, read, own, width);
  });
  tape.then(() => {
    const [ofRead, ofFolded, back] = [new Float64Array(width), new Float64Array(width), new Float64Array(length)];
    each(({ own, row, head, pattern }) => {
      ofRead.fill(0);
      ofFolded.fill(0);
      for (let d = head * dHead; d < (head + 1) * dHead; d++) {
        addScaled(wV.grad, d * width, read, own, width, z.grad[row * wide + d]);
        addScaled(ofRead, 0, wV.data, d * width, width, z.grad[row * wide + d]);
      }
      for (let key = 0; key < length; key++) back[key] = dot(ofRead, 0, x.data, (row * length + key) * width, width);
      const mean = dot(back, 0, pattern, 0, length);
      for (let key = 0; key < length; key++) {
        const [at, share] = [(row * length + key) * width, pattern[key] * (back[key] - mean)];
        addScaled(x.grad, at, ofRead, 0, width, pattern[key]);
        addScaled(x.grad, at, folded, own, width, share);
        addScaled(ofFolded, 0, x.data, at, width, share);
      }
      for (let d = head * dHead; d < (head + 1) * dHead; d++) {
        q.grad[row * wide + d] += scale * dot(wK.data, d * width, ofFolded, 0, width);
        addScaled(wK.grad, d * width, ofFolded, 0, width, scale * q.data[row * wide + d]);
      }
    });
  });
  return z;
}
