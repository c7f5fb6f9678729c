// What the program says is English already: nothing to translate.
const served: Record<string, string> = {};
export default served;
