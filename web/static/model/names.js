// The functions that the page has got from the server so far. Later views repeat only their ids. No DOM.

/** Keeps functions by id, and puts their names into views (web/known_functions.py). */
export class Names {
  constructor() {
    this.answer = 0; // the newest answer taken over
    this.known = new Map(); // id → {name, module, …}
    this.columns = [];
  }

  /** Completes an answer to a view request; changes it. Returns it. */
  complete(answer) {
    const { names } = answer;
    if (!names) return answer;
    const { id: ids, ...columns } = names.functions;
    this.columns = Object.keys(columns);
    ids.forEach((id, at) => {
      this.known.set(id, Object.fromEntries(this.columns.map((name) => [name, columns[name][at]])));
    });
    this.fill(answer.functions);
    if (answer.table) this.fill(answer.table.rows);
    this.answer = names.answer;
    return answer;
  }

  fill(part) {
    for (const name of this.columns) part[name] = part.id.map((id) => this.known.get(id)?.[name] ?? '');
  }
}
