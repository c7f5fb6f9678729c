// A page opened from the disk may start no Worker, and the search needs one. This one runs its script in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise((done) => {
        const script = frame.contentDocument.createElement("script")
        script.src = address
        script.onload = () => done(inside)
        frame.contentDocument.body.append(script)
      })
    }
    async postMessage(data) {
      ;(await this.ready).dispatchEvent(new MessageEvent("message", { data }))
    }
    terminate() {}
  }
  window.Worker = window.IFrameWorker
}
