// What this browser knows of a visitor: where they begin, the stop of the tour they are at, the shares they have set.
import { recall, remember } from "../storage";

const HOME = "headscope.home";
const TOUR = "headscope.tour";

export type Home = "start" | "microscope";
export interface TourPlace {
  stop: number;
  address: string; // the stop's own address, with what was changed there
  underway: boolean; // false once it was left or finished
}

export const STOPS = 7;

/** Where this browser begins from now on; who asks for the microscope leaves the tour. */
export function chooseHome(home: Home): void {
  remember(HOME, home);
  const tour = tourPlace();
  if (tour) keepTourPlace({ ...tour, underway: false });
}

export function tourPlace(): TourPlace | null {
  try {
    const kept = JSON.parse(recall(TOUR) ?? "null");
    const stop = Number(kept?.stop);
    if (!Number.isInteger(stop) || stop < 1 || stop > STOPS) return null;
    const address = String(kept.address);
    return {
      stop,
      address: address.startsWith(`#tour/${stop}`) ? address : `#tour/${stop}`,
      underway: !!kept.underway,
    };
  } catch {
    return null;
  }
}

export const keepTourPlace = (place: TourPlace): void => remember(TOUR, JSON.stringify(place));

/** Where an address without a page leads: to the tour while it is under way, to the microscope for who chose it, else to Start. */
export function firstAddress(): string {
  const tour = tourPlace();
  if (tour?.underway) return tour.address;
  return recall(HOME) === "microscope" ? "#microscope" : "#start";
}
