// The tour: one figure in seven stops.
export default {
  label: "The tour",
  title: (stop: number, name: string) => `${stop}. ${name} · headscope`,
  back: "Back",
  next: "Next",
  leave: "Leave the tour",
  finish: "Open the microscope",
  further: { real: "Heads of a larger model", learn: "The course" },
};
