// By hand.
export default {
  notCausal:
    "Here *it* reads **tired**, a word that comes later: this example is not causal. A model that writes from left to right could read only what stands before *it*; an encoder reads both ways.",
};
