// Search in pages that were opened as files. Browsers start no Web Worker from file://, so a hidden
// iframe runs the search script instead. Material's own replacement would be loaded from a CDN.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      this.send = inner.postMessage.bind(inner); // Before the script's own postMessage replaces it.
      addEventListener("message", (event) => {
        if (event.source === inner) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        }
      });
      inner.document.open();
      inner.document.write(
        "<script>postMessage = (data) => parent.postMessage(data, '*');</script>" +
        `<script src="${encodeURI(decodeURI(url))}"></script>`,
      );
      inner.document.close();
      this.ready = new Promise((resolve) => inner.addEventListener("load", resolve, { once: true }));
    }
    postMessage(data) {
      this.ready.then(() => this.send(data, "*"));
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
