// Arc diagram: a curve from each query token to the keys it attends to.

export interface Arc {
  query: number;
  key: number;
  weight: number;
  selected: boolean;
  path: string; // empty for a token that reads itself
  width: number;
  opacity: number;
}

export interface ArcShape {
  length: number;
  weight: (query: number, key: number) => number;
  cell: number; // height of a row
  x: number; // where the words begin
  selected: number;
}

export const FAINTEST = 0.02;

export function arcs(shape: ArcShape): Arc[] {
  const found: Arc[] = [];
  for (let query = 0; query < shape.length; query++)
    for (let key = 0; key < shape.length; key++) {
      const weight = shape.weight(query, key);
      if (weight >= FAINTEST) found.push(arc(shape, query, key, weight));
    }
  return found.sort((a, b) => Number(a.selected) - Number(b.selected) || a.weight - b.weight);
}

function arc(shape: ArcShape, query: number, key: number, weight: number): Arc {
  const selected = query === shape.selected;
  const from = (query + 0.5) * shape.cell;
  const to = (key + 0.5) * shape.cell;
  const end = shape.x - 3;
  const reach = shape.x - Math.min(Math.abs(from - to) * 0.66, shape.x * 1.28);
  return {
    query,
    key,
    weight,
    selected,
    path: query === key ? "" : `M${end} ${from}C${reach} ${from} ${reach} ${to} ${end} ${to}`,
    width: Math.max(0.75, weight * shape.cell * 0.42),
    opacity: selected ? Math.min(1, 0.35 + weight) : Math.min(0.5, 0.06 + weight * 0.42),
  };
}
