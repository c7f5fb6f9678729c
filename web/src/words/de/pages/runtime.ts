// Worauf das Modell einer veröffentlichten Seite läuft: WebAssembly oder die Grafikkarte.
import type en from "../../en/pages/runtime";

export default {
  runsOn: "Das Modell läuft auf",
  names: { wasm: "WebAssembly", webgpu: "WebGPU" },
  offered:
    "WebGPU nutzt deine Grafikkarte; geladen wird es erst, wenn du es wählst. Auf dieser Art Gerät ist es nicht erprobt und wird deshalb zuerst mit WebAssembly verglichen.",
  untested:
    "WebGPU: auf dieser Art Gerät nicht erprobt. Vor dem ersten Text wird ein Satz auf beiden gelesen und verglichen.",
  missing:
    "WebGPU wird nicht benutzt: dieser Browser bietet es hier nicht an (Browser tun das nur mit https und auf localhost). Das Modell läuft auf WebAssembly.",
  noAdapter:
    "WebGPU wird nicht benutzt: dieser Browser hat keine Grafikkarte gefunden. Das Modell läuft auf WebAssembly.",
  failed: (message) => `WebGPU wird nicht benutzt: es ist gescheitert (${message}). Das Modell läuft auf WebAssembly.`,
  agrees: (probability, weight) =>
    `WebGPU berechnet hier, was WebAssembly berechnet: auf einem Satz ist die größte Abweichung einer Wahrscheinlichkeit ${probability}, die eines Gewichts ${weight}.`,
  differs: (probability, weight) =>
    `WebGPU wird nicht benutzt: es berechnet hier etwas anderes. Auf einem Satz ist die größte Abweichung einer Wahrscheinlichkeit ${probability}, die eines Gewichts ${weight}. Das Modell läuft auf WebAssembly.`,
} satisfies typeof en;
