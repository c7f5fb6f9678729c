// What this browser keeps between visits. A notebook's sandboxed frame has no storage: there it lasts as long as the page.

const kept = new Map<string, string>();

export function recall(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return kept.get(key) ?? null;
  }
}

export function remember(key: string, value: string): void {
  kept.set(key, value);
  try {
    localStorage.setItem(key, value);
  } catch {
    // nothing else to keep it in
  }
}
