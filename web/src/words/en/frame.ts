// The frame of every page: the top bar, and what stands while a page loads.
export default {
  pages: {
    start: "Start",
    tour: "Tour",
    learn: "Learn",
    microscope: "Microscope",
    "four-heads": "Four heads",
    "by-hand": "By hand",
    "one-or-many": "One or many",
    film: "Film",
    cards: "Model cards",
    census: "Census",
  },
  nav: "Pages",
  skip: "Skip to the page",
  expert: "I know attention: open the microscope",
  expertShort: "open the microscope",
  copy: "Copy a link to this view",
  copied: "Link copied",
  theme: "Light or dark",
  opening: "Opening the page",
  stopped: "The program on this machine has stopped, so this page could not be opened. Start it again and reload.",
};
