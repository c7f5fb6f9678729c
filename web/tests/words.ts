// Tests read the whole catalogue.
import { allWords } from "../src/words/words";

await allWords();
