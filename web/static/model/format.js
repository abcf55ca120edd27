// Numbers → text. No DOM.

const NARROW_SPACE = '\u202f';

/** Three significant digits, without trailing zeros: 1.23, 12.3, 123. */
function threeDigits(value) {
  if (value >= 100) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

/** Formats nanoseconds as a duration for a label: "1.23 s", "12.3 ms", "3 min 05 s". */
export function formatNs(ns) {
  if (ns <= 0) return '0 s';
  if (ns < 999.5) return `${Math.round(ns)} ns`;
  if (ns < 999.5e3) return `${threeDigits(ns / 1e3)} µs`;
  if (ns < 999.5e6) return `${threeDigits(ns / 1e6)} ms`;
  const seconds = ns / 1e9;
  if (seconds < 119.5) return `${threeDigits(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 7200) return `${Math.floor(whole / 60)} min ${twoDigits(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${twoDigits(Math.floor((whole % 3600) / 60))} min`;
}

function twoDigits(value) {
  return String(value).padStart(2, '0');
}

/** Formats the nanoseconds of a running recording: "0:07", "12:34", "1:02:03". */
export function formatElapsed(ns) {
  const seconds = Math.floor(ns / 1e9);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${twoDigits(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${twoDigits(minutes % 60)}:${twoDigits(seconds % 60)}`;
}

/** Formats a moment of a recording, in seconds since its start: "12.3 s", "2:05". */
export function formatSeconds(seconds) {
  return seconds < 60 ? `${seconds.toFixed(1)} s` : formatElapsed(seconds * 1e9);
}

/** Formats a share in per cent. A share above 0 is never shown as 0 %, one below 1 never as 100 %. */
export function formatShare(part, whole) {
  if (!(whole > 0) || part <= 0) return '0 %';
  const percent = (100 * part) / whole;
  if (percent < 0.01) return '< 0.01 %';
  if (percent < 1) return `${percent.toFixed(2)} %`;
  if (percent < 99.95) return `${percent.toFixed(1)} %`;
  return part < whole ? '> 99.9 %' : '100 %';
}

/** Formats a difference of shares, 0 … 1, in percentage points: "0.03", "1.2", "12". */
export function formatPoints(difference) {
  const points = 100 * difference;
  return points < 0.095 ? points.toFixed(2) : points < 9.95 ? points.toFixed(1) : String(Math.round(points));
}

/** Formats an integer with thin spaces between thousands: 12 345. */
export function formatCount(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, NARROW_SPACE);
}

/** Formats a count with its noun: "1 thread", "12 threads". */
export function formatPlural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** Formats bytes with at most three digits: "980 B", "1.23 MB". */
export function formatBytes(bytes) {
  if (bytes < 1e3) return `${Math.round(bytes)} B`;
  if (bytes < 1e6) return `${threeDigits(bytes / 1e3)} kB`;
  if (bytes < 1e9) return `${threeDigits(bytes / 1e6)} MB`;
  return `${threeDigits(bytes / 1e9)} GB`;
}

/** Formats a rate in hertz: "100 Hz", "2.5 kHz". */
export function formatRate(hz) {
  return hz < 1000 ? `${threeDigits(hz)} Hz` : `${threeDigits(hz / 1000)} kHz`;
}

/** The program's name in a command line: its first word, without folders. */
export function programName(command) {
  const first = command.trim().split(/\s+/)[0] ?? '';
  return first.slice(first.lastIndexOf('/') + 1) || '(unknown)';
}

/** What a target runs (model.Status): of an interpreter, its script. */
export function targetName({ program, command }) {
  return program || programName(command);
}

/** Formats a path and a line as "server.cc:120"; "server.cc" without a line, "" without a path. */
export function formatPlace(file, line) {
  if (!file) return '';
  const name = file.slice(file.lastIndexOf('/') + 1);
  return line > 0 ? `${name}:${line}` : name;
}
