// Read and write a page's state in its address, "#film?v=1&step=680", field by field.

export type Fields = Record<string, string | number | null | undefined>;

/** "head=5.1&step=680": fields that are null, undefined or empty are left out. */
export function queryOf(fields: Fields): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(fields))
    if (value !== null && value !== undefined && value !== "") written.set(name, String(value));
  return String(written);
}

export function addressOf(page: string, fields: Fields): string {
  return `#${page}?${queryOf({ v: "1", ...fields })}`;
}

/** Writes a page's state into the address bar while that page is shown. */
export function keepAddress(page: string, address: string): void {
  if (isAt(page, location.hash) && address !== location.hash) history.replaceState(null, "", address);
}

export function fieldsAt(hash: string): URLSearchParams {
  return new URLSearchParams(hash.split("?").slice(1).join("?"));
}

export function isAt(page: string, hash: string): boolean {
  return hash.replace(/^#/, "").split("?")[0] === page;
}

/** A whole number within bounds, or null. */
export function whole(text: string | null, least = 0, most = Number.MAX_SAFE_INTEGER): number | null {
  if (text === null || !/^\d{1,15}$/.test(text)) return null;
  const value = Number(text);
  return value >= least && value <= most ? value : null;
}
