// The notebook's side of the microscope: the page in a frame of its own, so that neither's styles and keys reach the
// other, and messages carried between it and the kernel. The page opens a channel when it is ready (source/notebook.ts).

const HEIGHT = 900;
const PAGE = "page"; // the id under which the page itself is asked for

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "headscope: the microscope";
  frame.style.cssText = `display: block; width: 100%; height: ${HEIGHT}px; border: 0; resize: vertical;`;
  let port = null;

  const fromPage = ({ data }) => model.send(data);
  const fromKernel = (answer, buffers) => {
    if (answer.id === PAGE) {
      frame.srcdoc = answer.value;
      return;
    }
    const [view] = buffers ?? [];
    const bytes = view && view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
    port?.postMessage({ ...answer, bytes }, bytes ? [bytes] : []);
  };
  const opened = (event) => {
    if (event.source !== frame.contentWindow || event.data !== "headscope") return;
    port = event.ports[0];
    port.onmessage = fromPage;
  };

  window.addEventListener("message", opened);
  model.on("msg:custom", fromKernel);
  el.append(frame);
  model.send({ id: PAGE, ask: "page" });
  return () => {
    window.removeEventListener("message", opened);
    model.off("msg:custom", fromKernel);
    port?.close();
  };
}

export default { render };
