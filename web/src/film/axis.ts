export interface Axis {
  left: number; // where the axis begins
  width: number; // how long it is
  wide: number; // of the whole drawing, labels at the right included
}
