// Runs in a SharedWorker: one stream of events for all pages of this recording in one browser. Browsers open
// six connections to a server, so that six pages with streams of their own would leave none for requests.

import { Stream } from './stream.js';

const ports = new Set();
const last = { status: null, line: null };

function tell(message) {
  for (const port of ports) port.postMessage(message);
}

const stream = new Stream(new URL('../../api/events', import.meta.url), {
  onStatus(status) {
    last.status = status;
    tell({ status });
  },
  onState(line) {
    last.line = line;
    tell({ line });
  },
});

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data === 'leave') {
      ports.delete(port);
      return;
    }
    ports.add(port);
    // A page that is just loaded shows that the server is there, even if its predecessor has closed.
    if (last.line === null || last.line === 'closed') stream.open();
    if (last.status) port.postMessage({ status: last.status });
    if (last.line) port.postMessage({ line: last.line });
  };
  port.start();
};
