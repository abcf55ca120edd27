// What is missing from a recording, the worst first: [name, label, what it means]. Repeats LOSSES of
// profiler/wire/counters.py, and tests/unit/wire/test_counters.py compares. No DOM.

export const LOSSES = [
  ["intervals_lost", "Samples dropped", "Their time is missing."],
  ["threads_lost", "Threads not watched", "More threads at once than can be watched; these are missing."],
  ["traces_lost", "Stacks not kept", "The table of stacks was full; their time shows as [unattributed]."],
  ["stacks_full", "Samples whose stacks were not kept", "flametap's own table of stacks is full; their time shows as [stack table full]."],
  ["threads_full", "Samples of further threads", "flametap's own table of threads is full; their time shows as [more threads]."],
  ["modules_lost", "Files not told apart", "More different files were mapped than can be told apart; these have no names."],
  ["modules_full", "Files not kept", "flametap's own table of files is full; functions in the others have no names."],
  ["intervals_merged", "Samples kept as sums", "The recording is larger than the memory limit: moments in its oldest part are unknown."],
  ["codes_lost", "Functions without a name", "The program had thrown them away before their names were read."],
  ["records_lost", "Dropped messages about threads", "The names or ends of some threads found no room and may be missing."]
];
