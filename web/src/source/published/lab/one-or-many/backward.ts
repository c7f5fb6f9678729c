// Matrices that know their gradient, and the operations of a small transformer; each remembers its way back.

/** Rows of numbers and their gradient, [row, column]. */
export class Matrix {
  readonly grad: Float64Array;
  constructor(
    readonly data: Float64Array,
    readonly columns: number,
  ) {
    this.grad = new Float64Array(data.length);
  }
  get rows(): number {
    return this.data.length / this.columns;
  }
}

/** The operations of one pass, undone from the last to the first for the gradients. */
export class Tape {
  private readonly undo: (() => void)[] = [];

  backward(): void {
    while (this.undo.length) this.undo.pop()!();
  }

  /** x through a matrix [output, input]. */
  linear(x: Matrix, weight: Matrix): Matrix {
    const [input, output] = [x.columns, weight.rows];
    const made = new Matrix(new Float64Array(x.rows * output), output);
    for (let row = 0; row < x.rows; row++)
      for (let out = 0; out < output; out++)
        made.data[row * output + out] = dot(x.data, row * input, weight.data, out * input, input);
    this.undo.push(() => {
      for (let row = 0; row < x.rows; row++)
        for (let out = 0; out < output; out++) {
          const share = made.grad[row * output + out];
          addScaled(x.grad, row * input, weight.data, out * input, input, share);
          addScaled(weight.grad, out * input, x.data, row * input, input, share);
        }
    });
    return made;
  }

  add(one: Matrix, other: Matrix): Matrix {
    const made = new Matrix(one.data.slice(), one.columns);
    addScaled(made.data, 0, other.data, 0, made.data.length, 1);
    this.undo.push(() => {
      for (const part of [one, other]) addScaled(part.grad, 0, made.grad, 0, made.data.length, 1);
    });
    return made;
  }

  /** A bias on every row. */
  bias(x: Matrix, added: Matrix): Matrix {
    const made = new Matrix(x.data.slice(), x.columns);
    for (let row = 0; row < x.rows; row++) addScaled(made.data, row * x.columns, added.data, 0, x.columns, 1);
    this.undo.push(() => {
      addScaled(x.grad, 0, made.grad, 0, x.data.length, 1);
      for (let row = 0; row < x.rows; row++) addScaled(added.grad, 0, made.grad, row * x.columns, x.columns, 1);
    });
    return made;
  }

  /** RMS norm with a gain. */
  norm(x: Matrix, gain: Matrix): Matrix {
    const width = x.columns;
    const made = new Matrix(new Float64Array(x.data.length), width);
    const scales = Float64Array.from({ length: x.rows }, (_, row) => {
      const square = dot(x.data, row * width, x.data, row * width, width) / width;
      return 1 / Math.sqrt(square + NORM_EPSILON);
    });
    for (let row = 0; row < x.rows; row++)
      for (let at = 0; at < width; at++)
        made.data[row * width + at] = x.data[row * width + at] * scales[row] * gain.data[at];
    this.undo.push(() => {
      for (let row = 0; row < x.rows; row++) {
        const begins = row * width;
        const scale = scales[row];
        let along = 0; // of the gradient, along x
        for (let at = 0; at < width; at++) {
          const value = x.data[begins + at] * scale;
          const back = made.grad[begins + at];
          gain.grad[at] += back * value;
          along += back * gain.data[at] * value;
        }
        for (let at = 0; at < width; at++)
          x.grad[begins + at] +=
            scale * (made.grad[begins + at] * gain.data[at] - (x.data[begins + at] * scale * along) / width);
      }
    });
    return made;
  }

  gelu(x: Matrix): Matrix {
    const made = new Matrix(new Float64Array(x.data.length), x.columns);
    const below = x.data.map(normalBelow);
    x.data.forEach((value, at) => (made.data[at] = value * below[at]));
    this.undo.push(() =>
      x.data.forEach((value, at) => {
        const density = Math.exp((-value * value) / 2) / Math.sqrt(2 * Math.PI);
        x.grad[at] += made.grad[at] * (below[at] + value * density);
      }),
    );
    return made;
  }

  /** Token and position embeddings of rows of this length. */
  embed(ids: Int32Array, tokens: Matrix, positions: Matrix, length: number): Matrix {
    const width = tokens.columns;
    const made = new Matrix(new Float64Array(ids.length * width), width);
    const each = (act: (at: number, token: number, place: number) => void) =>
      ids.forEach((id, at) => act(at * width, id * width, (at % length) * width));
    each((at, token, place) => {
      addScaled(made.data, at, tokens.data, token, width, 1);
      addScaled(made.data, at, positions.data, place, width, 1);
    });
    this.undo.push(() =>
      each((at, token, place) => {
        addScaled(tokens.grad, token, made.grad, at, width, 1);
        addScaled(positions.grad, place, made.grad, at, width, 1);
      }),
    );
    return made;
  }

  /** The last token of every row. */
  last(x: Matrix, length: number): Matrix {
    const [width, rows] = [x.columns, x.rows / length];
    const made = new Matrix(new Float64Array(rows * width), width);
    const place = (row: number) => (row * length + length - 1) * width;
    for (let row = 0; row < rows; row++) addScaled(made.data, row * width, x.data, place(row), width, 1);
    this.undo.push(() => {
      for (let row = 0; row < rows; row++) addScaled(x.grad, place(row), made.grad, row * width, width, 1);
    });
    return made;
  }

  /** Mean cross-entropy in nats: each row of logits holds one distribution for each answer of that row. */
  crossEntropy(logits: Matrix, answers: Int32Array): number {
    const size = logits.data.length / answers.length;
    const shares = logits.data.slice();
    let loss = 0;
    answers.forEach((answer, at) => {
      const row = shares.subarray(at * size, (at + 1) * size);
      softmax(row);
      loss -= Math.log(row[answer]) / answers.length;
    });
    this.undo.push(() => {
      addScaled(logits.grad, 0, shares, 0, shares.length, 1 / answers.length);
      answers.forEach((answer, at) => (logits.grad[at * size + answer] -= 1 / answers.length));
    });
    return loss;
  }

  /** Let another operation say how to undo itself. */
  then(undo: () => void): void {
    this.undo.push(undo);
  }
}

const NORM_EPSILON = 2 ** -23; // nn.RMSNorm's own: that of a single-precision number

/** Four sums side by side: each addition would otherwise wait for the one before. */
export function dot(one: Float64Array, from: number, other: Float64Array, at: number, count: number): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let index = 0;
  for (; index + 3 < count; index += 4) {
    a += one[from + index] * other[at + index];
    b += one[from + index + 1] * other[at + index + 1];
    c += one[from + index + 2] * other[at + index + 2];
    d += one[from + index + 3] * other[at + index + 3];
  }
  for (; index < count; index++) a += one[from + index] * other[at + index];
  return a + b + (c + d);
}

/** Add to `count` numbers of one array as many of another, times a factor. */
export function addScaled(
  to: Float64Array,
  at: number,
  from: Float64Array,
  begins: number,
  count: number,
  factor: number,
): void {
  let index = 0;
  for (; index + 3 < count; index += 4) {
    to[at + index] += factor * from[begins + index];
    to[at + index + 1] += factor * from[begins + index + 1];
    to[at + index + 2] += factor * from[begins + index + 2];
    to[at + index + 3] += factor * from[begins + index + 3];
  }
  for (; index < count; index++) to[at + index] += factor * from[begins + index];
}

/** Softmax in place. */
export function softmax(row: Float64Array): void {
  let highest = -Infinity;
  let total = 0;
  for (let at = 0; at < row.length; at++) highest = Math.max(highest, row[at]);
  for (let at = 0; at < row.length; at++) total += row[at] = Math.exp(row[at] - highest);
  for (let at = 0; at < row.length; at++) row[at] /= total;
}

/** The share of a standard normal distribution below a value, by its series. */
export function normalBelow(value: number): number {
  const size = Math.abs(value);
  if (size > 8) return value > 0 ? 1 : 0;
  let [term, sum] = [size, size];
  for (let k = 1; Math.abs(term) > 1e-17 * sum; k++) sum += term *= (size * size) / (2 * k + 1);
  const half = (sum * Math.exp((-size * size) / 2)) / Math.sqrt(2 * Math.PI);
  return value > 0 ? 0.5 + half : 0.5 - half;
}
