// The header: the recorded process, the state of the recording, and the button that pauses it.

import { setPaused } from '../server/connection.js';
import { byId, icon, setText } from './dom.js';
import { formatCount, formatElapsed, formatPlural, formatRate, targetName } from '../model/format.js';

const STATE_TEXT = {
  connecting: 'Connecting', // no status has arrived yet
  attaching: 'Attaching',
  recording: 'Recording',
  paused: 'Paused',
  ended: 'Ended',
  saved: 'Saved report',
  lost: 'Reconnecting',
};

const HOSTS_SHOWN = 3; // more are counted

const STOPPED = 'stopped'; // by the user, or as the time asked for was over: no news

/** Returns which machines they run on if it is not this one: " on web7, web8", " on 12 machines". */
function describeHosts(host) {
  const hosts = host ? host.split(', ') : [];
  if (hosts.length > HOSTS_SHOWN) return ` on ${formatCount(hosts.length)} machines`;
  return hosts.length ? ` on ${host}` : '';
}

/** Returns which processes it is of: "pid 812", "pid 812 + 3 more". */
function describeProcesses({ pid, processes, host }) {
  const where = describeHosts(host);
  if (!(processes > 1)) return pid ? `pid ${pid}${where}` : '';
  const count = pid ? `pid ${pid} + ${formatCount(processes - 1)} more` : `${formatCount(processes)} processes`;
  return `${count}${where}`;
}

export class Header {
  /** @param on {changed(), failed(message)} */
  constructor(on) {
    this.on = on;
    this.status = null;
    this.line = 'connecting';
    byId('pause').addEventListener('click', () => this.togglePause());
  }

  setLine(line) {
    this.line = line;
    this.showLine();
  }

  update(status) {
    this.status = status;
    setText(byId('elapsed'), formatElapsed(status.duration_ns - status.paused_ns));
    setText(byId('samples'), formatPlural(status.samples, 'sample'));
    setText(byId('rate'), formatRate(status.rate_hz));
    byId('rate').title = `Samples per second of CPU time. Sleeping threads are checked at ${formatRate(status.look_rate_hz)}.`;
    const name = targetName(status);
    setText(byId('program'), name);
    byId('program').title = status.command;
    // A recording that was merged from several processes has no process id.
    setText(byId('pid'), describeProcesses(status));
    const file = document.getElementById('files-name')?.textContent; // of one recording among others
    const parts = [file, status.pid ? `${name} (${status.pid})` : name, 'flametap'];
    document.title = parts.filter(Boolean).join(' · ');
    this.showLine();
  }

  /** Shows the state of the connection, which may be lost or closed before the first status. */
  showLine() {
    const { line } = this;
    const known = this.status?.state ?? 'connecting';
    const state = line === 'lost' ? 'lost' : line === 'closed' ? 'ended' : known;
    byId('state').dataset.state = state;
    setText(byId('state-text'), this.status?.source ? 'File' : (STATE_TEXT[state] ?? state));
    this.showPause();
    this.showBanner();
  }

  get canPause() {
    return this.line === 'live' && ['recording', 'paused'].includes(this.status?.state);
  }

  showPause() {
    const isPaused = this.status?.state === 'paused';
    const button = byId('pause');
    button.hidden = !this.canPause;
    if (button.dataset.paused === String(isPaused)) return;
    button.dataset.paused = isPaused;
    setText(byId('pause-text'), isPaused ? 'Resume' : 'Pause');
    button.setAttribute('aria-label', isPaused ? 'Resume' : 'Pause');
    byId('pause-icon').replaceChildren(icon(isPaused ? 'play' : 'pause'));
  }

  showBanner() {
    const text = this.bannerText();
    byId('banner').hidden = text === '';
    byId('banner').dataset.level = this.line === 'lost' ? 'bad' : 'plain';
    setText(byId('banner-text'), text);
  }

  bannerText() {
    if (this.line === 'lost') return 'The connection to flametap is lost; trying again.';
    if (this.line === 'closed') return 'flametap was stopped. The loaded data stays visible.';
    if (this.status?.state === 'saved') return this.status.report;
    if (this.status?.source) return `A file of another profiler: ${this.status.source}.`;
    if (this.status?.state !== 'ended') return '';
    const { reason } = this.status;
    return `The recording has ended${reason && reason !== STOPPED ? `: ${reason}` : ''}.`;
  }

  async togglePause() {
    if (!this.canPause) return;
    const paused = this.status.state !== 'paused';
    try {
      await setPaused(paused);
      this.on.changed();
    } catch (error) {
      this.on.failed(`Could not ${paused ? 'pause' : 'resume'}: ${error.message}`);
    }
  }
}
