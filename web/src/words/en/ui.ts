// Controls that several pages share.
export default {
  save: (what: string) => `Save ${what}`,
  saveIt: "Save",
  kinds: { png: "PNG picture", svg: "SVG picture", csv: "CSV numbers", html: "HTML page" },
  numbers: "The numbers",
  notInFile: "This file holds one text and no model. For this, open the text in headscope.",
  again: "Try again",
  key: (name: string, top: string) => `Key: darker is more ${name}, from 0 to ${top}`,
  weight: "weight",
  attempt: "Try",
  more: (shown: string, more: number) => `${shown} and ${more} more`,
  /** Between thousands: 8,192. */
  thousands: ",",
  /** Before decimals: 0.5. */
  decimal: ".",
  layer: (site: string) => `layer ${site}`,
};
