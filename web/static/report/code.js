// The source lines of the functions that a report has (profiler/export/report_code.py). No DOM.

/** Answers GET lines; null if the report does not have the function. @param query URLSearchParams */
export function linesOf({ files, texts, functions }, query) {
  const found = functions[query.get('function')]?.[query.get('clock') ?? 'cpu'];
  if (!found) return null;
  const { lines } = found;
  const number = new Map(); // file of the report → of the answer
  for (const file of lines.file) if (!number.has(file)) number.set(file, number.size);
  return {
    ...found,
    files: [...number.keys()].map((file) => files[file]),
    lines: {
      ...lines,
      file: lines.file.map((file) => number.get(file)),
      text: lines.line.map((line, at) => texts[lines.file[at]]?.[line] ?? null),
    },
  };
}
