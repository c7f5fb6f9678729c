// Random numbers as PyTorch's CPU generator draws them (MT19937), so that equal seeds give Python's rows and weights.
const SIZE = 624;
const AHEAD = 397;
const BLOCK = 16; // normal numbers are made in blocks: pairs that are eight apart share an angle

export class TorchRandom {
  private readonly state = new Uint32Array(SIZE);
  private next = SIZE;

  constructor(seed: number) {
    this.state[0] = seed;
    for (let at = 1; at < SIZE; at++) {
      const before = this.state[at - 1];
      this.state[at] = Math.imul(1812433253, before ^ (before >>> 30)) + at;
    }
  }

  /** `torch.randint`: whole numbers below a bound. */
  integers(bound: number, count: number): Int32Array {
    return Int32Array.from({ length: count }, () => this.bits() % bound);
  }

  /** `torch.rand`: single-precision numbers from 0 up to 1. */
  uniform(count: number): Float64Array {
    return Float64Array.from({ length: count }, () => (this.bits() & 0xffffff) / 2 ** 24);
  }

  /** `torch.randn` of at least 16 numbers; fewer are drawn in another way there. */
  normal(count: number): Float64Array {
    if (count < BLOCK) throw new RangeError(`${count} normal numbers: draw at least ${BLOCK}`);
    const numbers = this.uniform(count);
    for (let begins = 0; begins + BLOCK <= count; begins += BLOCK) boxMuller(numbers.subarray(begins, begins + BLOCK));
    if (count % BLOCK) {
      const last = numbers.subarray(count - BLOCK);
      last.set(this.uniform(BLOCK));
      boxMuller(last);
    }
    return numbers;
  }

  private bits(): number {
    if (this.next === SIZE) this.twist();
    let drawn = this.state[this.next++];
    drawn ^= drawn >>> 11;
    drawn ^= (drawn << 7) & 0x9d2c5680;
    drawn ^= (drawn << 15) & 0xefc60000;
    return (drawn ^ (drawn >>> 18)) >>> 0;
  }

  private twist(): void {
    const { state } = this;
    for (let at = 0; at < SIZE; at++) {
      const joined = (state[at] & 0x80000000) | (state[(at + 1) % SIZE] & 0x7fffffff);
      state[at] = state[(at + AHEAD) % SIZE] ^ (joined >>> 1) ^ (joined & 1 ? 0x9908b0df : 0);
    }
    this.next = 0;
  }
}

function boxMuller(block: Float64Array): void {
  for (let at = 0; at < BLOCK / 2; at++) {
    const radius = Math.sqrt(-2 * Math.log(1 - block[at]));
    const angle = 2 * Math.PI * block[at + BLOCK / 2];
    block[at] = radius * Math.cos(angle);
    block[at + BLOCK / 2] = radius * Math.sin(angle);
  }
}
