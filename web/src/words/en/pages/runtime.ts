// What a published site's model runs on: WebAssembly, or the reader's graphics card.
export default {
  runsOn: "The model runs on",
  names: { wasm: "WebAssembly", webgpu: "WebGPU" },
  offered:
    "WebGPU uses your graphics card; its runtime is fetched when you choose it. It is untested on this kind of device, so it is first compared with WebAssembly.",
  untested:
    "WebGPU: untested on this kind of device. Before the first text is read, one sentence is read on both and compared.",
  missing:
    "WebGPU is not used: this browser does not offer it here (browsers do so on https and localhost alone). The model runs on WebAssembly.",
  noAdapter: "WebGPU is not used: this browser found no graphics card. The model runs on WebAssembly.",
  failed: (message: string) => `WebGPU is not used: it failed (${message}). The model runs on WebAssembly.`,
  agrees: (probability: string, weight: string) =>
    `WebGPU computes here what WebAssembly does: on one sentence, the largest difference of a probability is ${probability}, of an attention weight ${weight}.`,
  differs: (probability: string, weight: string) =>
    `WebGPU is not used: it computes something else here. On one sentence, the largest difference of a probability is ${probability}, of an attention weight ${weight}. The model runs on WebAssembly.`,
};
