// The microscope.
export default {
  triangle: "Why is it a triangle?",
  square: "Why is it a square?",
  pattern: "What is shown?",
};
