// Von Hand.
import type en from "../en/by-hand";

export default {
  notCausal:
    "Hier liest *it* das Wort **tired**, das später kommt: Dieses Beispiel ist nicht kausal. Ein Modell, das von links nach rechts schreibt, könnte nur lesen, was vor *it* steht; ein Encoder liest in beide Richtungen.",
} satisfies typeof en;
