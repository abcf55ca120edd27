// The steps that decide how the tree is shown (profiler/tree/shaper.py): what is hidden, folded, focused on. No DOM.

import { plain, quoted, readFunction, spellFunction, split } from './spelling.js';

const LABELS = {
  hide: 'Hidden',
  fold: 'Folded',
  without: 'Left out',
  only: 'Only stacks through',
  focus: 'Only',
  callers: 'Callers of',
  recursion: 'Recursion folded',
  chains: 'Chains folded',
  busy: 'Idle waits left out',
  inverted: 'Upside down',
};
const EXPLAINED = {
  hide: 'Its time counts as its callers’ own.',
  fold: 'Its functions that call each other are one box.',
  without: 'Stacks that pass through it are not counted.',
  only: 'Only stacks that pass through it are counted.',
  focus: 'It and what it calls, wherever it is called.',
  callers: 'It and what calls it.',
  recursion: 'A function that calls itself directly is one box.',
  chains: 'Functions that do nothing but call the next one are one box.',
  busy: 'Waits for work, and sleeps, are not counted.',
  inverted: 'Begins with the functions in which time was spent; their callers follow.',
};
// These change the whole way of looking: there is one of them at a time, and none twice.
const WAYS = ['focus', 'callers', 'inverted'];
const ORIGIN_NAMES = {
  project: 'your code',
  library: 'libraries',
  stdlib: 'standard library',
  native: 'native code',
  kernel: 'kernel',
};

/** Returns the target that means a function: all of its name and module. */
export function functionTarget({ name, module }) {
  return spellFunction({ name, module });
}

export function moduleTarget(module) {
  return `@${quoted(module)}`;
}

export function searchTarget(text) {
  return `?${text.replace(/[\\;]/g, '\\$&')}`;
}

/** Returns a target in words. */
export function describeTarget(target) {
  if (target.startsWith('?')) return `“${plain(target.slice(1))}”`;
  if (target.startsWith('=')) return ORIGIN_NAMES[target.slice(1)] ?? target.slice(1);
  if (target.startsWith('@')) return plain(target.slice(1));
  return readFunction(target).name;
}

export const parseSteps = (text) => split(text, ';').filter((step) => step.split(':')[0] in LABELS);

const verbOf = (step) => step.split(':', 1)[0];
const targetOf = (step) => step.slice(verbOf(step).length + 1);

/** Returns {label, target, title} of a step. */
export function describeStep(step) {
  const verb = verbOf(step);
  return { label: LABELS[verb] ?? verb, target: describeTarget(targetOf(step)), title: EXPLAINED[verb] ?? '' };
}

/** Returns the steps with one more at the end. */
export function addStep(steps, step) {
  const isWay = WAYS.includes(verbOf(step));
  return [...steps.filter((each) => each !== step && !(isWay && WAYS.includes(verbOf(each)))), step];
}

export function removeStep(steps, step) {
  return steps.filter((each) => each !== step);
}

export function toggleStep(steps, step) {
  return steps.includes(step) ? removeStep(steps, step) : addStep(steps, step);
}

/** Returns the steps of one half of a sandwich: "callers" or "focus". */
export function halfSteps(steps, verb, target) {
  return addStep(steps.filter((step) => !['chains', ...WAYS].includes(verbOf(step))), `${verb}:${target}`);
}
