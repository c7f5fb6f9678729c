// Das Mikroskop.
import type en from "../en/microscope";

export default {
  triangle: "Warum ein Dreieck?",
  square: "Warum ein Quadrat?",
  pattern: "Was ist zu sehen?",
} satisfies typeof en;
