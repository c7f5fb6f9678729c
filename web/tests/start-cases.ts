// What Start says, move by move: the shares of animal, road, because and tired, and the key of the sentence.
type Case = [string, number[][], string];

export const sentenceKeys: Case[] = [
  ["road kept", [[0.1, 0.7, 0.1, 0.1]], "road"],
  ["because", [[0.1, 0.2, 0.6, 0.1]], "because"],
  ["tired before animal", [[0.1, 0.1, 0.1, 0.7]], "tiredFirst"],
  ["on the way", [[0.4, 0.4, 0.1, 0.1]], "onTheWay"],
  ["animal", [[0.7, 0.1, 0.1, 0.1]], "who"],
  [
    "half and half",
    [
      [0.7, 0.1, 0.1, 0.1],
      [0.45, 0.05, 0.05, 0.45],
    ],
    "blend",
  ],
  [
    "animal lost",
    [
      [0.7, 0.1, 0.1, 0.1],
      [0.1, 0.1, 0.1, 0.7],
    ],
    "how",
  ],
  [
    "animal again",
    [
      [0.7, 0.1, 0.1, 0.1],
      [0.1, 0.1, 0.1, 0.7],
      [0.7, 0.1, 0.1, 0.1],
    ],
    "whoAgain",
  ],
];
