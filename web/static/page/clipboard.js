// Copies text, and says so.

import { say } from './toast.js';

/** @param what what was copied, in words */
export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}.`);
  } catch {
    say('The browser does not let the page copy.');
  }
}
