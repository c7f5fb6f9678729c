// Pictures and sound under the microscope.
export default {
  pictures: "a picture",
  sounds: "a .wav file",
  or: (one: string, other: string) => `${one} or ${other}`,
  choose: (kinds: string) => `Choose ${kinds}`,
  drop: (kinds: string) => `Drop ${kinds} anywhere`,
  needed: (kinds: string) => `This model reads ${kinds}. Drop one here, or choose a file. Nothing leaves this machine.`,
  notRead: "This model reads text alone; it takes no picture and no sound.",
  tooLarge: (megabytes: string, most: string) =>
    `The file has ${megabytes} MB, and at most ${most} are read. Shrink it first.`,
  remove: (name: string) => `Take ${name} away`,
  beside: "Text beside it",
  written: "What the decoder has written",
  noText: "This model takes no text",
  picture: "Picture",
  sound: "Sound",
  pictureLabel: (head: string, token: string, strongest: string) =>
    `What head ${head} reads from ${token}, over the picture. ${strongest}. Arrow keys move to another patch, plus and minus zoom.`,
  soundLabel: (head: string, token: string, strongest: string) =>
    `What head ${head} reads from ${token}, under the waveform. ${strongest}. Arrow keys choose another row.`,
  strongest: (key: string, weight: string) => `Most: ${key}, ${weight}`,
  reads: (query: string, key: string, weight: string) => `${query} reads ${key} ${weight}`,
  isRead: (query: string, key: string, weight: string) => `${key} is read by ${query} ${weight}`,
  cut: (query: string, key: string, weight: string) => `cut ${query} from ${key} ${weight}`,
  veil: "The clearer a patch, the more it is read; one that is not read fades into the page.",
  clearest: (weight: string) => `A clear patch is ${weight}.`,
  darkest: (weight: string) => `The darkest colour is ${weight}.`,
  others: "Positions that are no patches",
  choosePatch: "Click a patch to ask what it reads.",
  chooseTime: "Click into the sound to ask what that moment reads.",
  sink: (key: string, mean: string, even: string) =>
    `Most attention goes to **${key}**: ${mean} of it on average, where even shares would be ${even}.`,
  aside: (key: string) => `set ${key} aside`,
  asideWhy:
    "A sink: a head with nothing to say rests on one position, since its weights must sum to one. Setting it aside shows what else it reads. The other weights are not rescaled.",
  notDrawn: (weight: string, key: string) => `${weight} on ${key} is not drawn; the rest is not rescaled.`,
  elsewhere: (weight: string) => `${weight} of this row lies on positions that are not in the picture.`,
  seconds: (seconds: string) => `${seconds} s`,
  silence: (seconds: string, covered: string) =>
    `The sound is ${seconds} s long; this model always hears ${covered} s, and the rest is silence that was added.`,
  noGrid: "Where this head's keys lie in the picture is not known; the heat map shows them by number.",
  noPicture: "The picture itself is not here; the heat map shows its positions.",
  title: (model: string, head: string, token: string) => `${model}, head ${head}: what ${token} reads`,
  position: "position",
  weight: "weight",
  save: "this picture",
};
