// Hands files and text to the user: downloads, and the clipboard.

/** Has the browser save a file. */
export function download(blob, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser reads it after the click; a moment later it may go.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Puts text on the clipboard. Throws if the browser does not allow it. */
export async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Pages of another machine's address have no clipboard of their own (only HTTPS and localhost do).
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  if (!isDone) throw new Error('the browser does not allow it');
}
