/** A sentence for the person at the page; in a file of its own, since a published site's worker has no catalogue. */
export class Problem extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly status?: number,
  ) {
    super(message);
  }
}
